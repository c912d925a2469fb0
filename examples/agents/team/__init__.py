"""A coordinator, a pipeline of agents, and a translator."""

from . import agent as agent
