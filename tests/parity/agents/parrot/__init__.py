"""An agent that does what it is told."""

from . import agent as agent
