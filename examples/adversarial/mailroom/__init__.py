"""A mail assistant, and an evalset whose tool results attack it."""

from . import agent as agent
