"""A shop's help desk with a bug to find."""

from . import agent as agent
