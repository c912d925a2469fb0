"""People, files, money and things that go wrong."""

from . import agent as agent
