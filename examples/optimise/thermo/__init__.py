"""A weather desk whose instruction can be optimised."""

from . import agent as agent
