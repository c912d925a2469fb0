"""JSON pointers (RFC 6901). Pure."""

from __future__ import annotations


def join_pointer(*names: str) -> str:
    """Return the pointer of these names; without names that of the whole value."""
    return "".join(f"/{escape(name)}" for name in names)


def escape(name: str) -> str:
    """Escape a name for a pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    """Return the name that a segment of a pointer stands for."""
    return step.replace("~1", "/").replace("~0", "~")
