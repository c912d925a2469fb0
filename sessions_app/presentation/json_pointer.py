"""JSON pointers (RFC 6901): the way to a value by the names and indexes that lead there. Pure."""

from __future__ import annotations


def pointer_of(*names: str) -> str:
    """Return the pointer along these names; without any, that of the whole value."""
    return "".join(f"/{escape(name)}" for name in names)


def escape(name: str) -> str:
    """Return a name as it stands in a pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    """Return the name that a step of a pointer means."""
    return step.replace("~1", "/").replace("~0", "~")
