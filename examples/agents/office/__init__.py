"""An office assistant: people, files, money and failures."""

from . import agent as agent
