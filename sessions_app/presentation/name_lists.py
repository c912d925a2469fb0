"""Lists of names in sentences: the first names, and how many more there are. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MAX_NAMES = 5
"""Names that a sentence lists, unless it says otherwise."""


def join_names(names: Sequence[str], most: int = MAX_NAMES) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
