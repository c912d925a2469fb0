"""An agent that follows the user's instructions."""

from . import agent as agent
