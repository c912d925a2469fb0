"""Streams thoughts and Markdown, in four languages."""

from . import agent as agent
