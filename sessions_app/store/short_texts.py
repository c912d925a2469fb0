"""Texts and lists of names of limited length, for sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MAX_NAMES = 5
"""Names that a sentence lists, unless it says otherwise."""


def truncate(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text; the last one is an ellipsis if it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def join_names(names: Sequence[str], limit: int = MAX_NAMES) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"
