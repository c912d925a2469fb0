"""One agent, three tools, all four scopes of state."""

from . import agent as agent
