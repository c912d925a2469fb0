"""A live agent."""

from . import agent

__all__ = ["agent"]
