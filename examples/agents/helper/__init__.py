"""A helper that reads DevUI's store with the tools that coding agents have."""

from . import agent as agent
