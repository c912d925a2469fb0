"""Parse and format durations such as `30d`, `12h`, `90m`. Pure."""

from __future__ import annotations

import math
import re

from sessions_app.store.errors import BadInput

UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
"""Letter -> seconds, largest first."""

MAX_S = 100 * 365 * UNITS["d"]
"""A hundred years; more is taken for a typing error."""

_FORM = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([dhms])", re.ASCII)


def parse(text: str) -> float:
    """Return the seconds of a duration such as `30d`, `12h`, `90m`, `45s` or `1.5h`.

    Raises:
        BadInput: the text has another form, is zero, or is longer than a hundred years.
    """
    match = _FORM.fullmatch(text.strip().lower())
    if match is None:
        raise BadInput(
            f"{text[:40]!r} is not a duration: a number followed by d, h, m or s.",
            hint="Write 30d for thirty days, 12h for twelve hours, 90m for ninety minutes.",
        )
    return check_seconds(float(match[1]) * UNITS[match[2]])


def check_seconds(seconds: float) -> float:
    """Check a duration in seconds and return it.

    Raises:
        BadInput: the number is not finite, not positive, or more than a hundred years.
    """
    if not math.isfinite(seconds) or not 0 < seconds <= MAX_S:
        raise BadInput(
            f"A duration of {seconds:g} seconds is out of range: it must be positive and at most 100 years.",
            hint="Write 30d for thirty days, 12h for twelve hours, 90m for ninety minutes.",
        )
    return seconds


def format_seconds(seconds: float) -> str:
    """Return a duration in the largest unit in which it is a whole number; `parse` reads it."""
    for letter, size in UNITS.items():
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{letter}"
    return f"{seconds:f}".rstrip("0").rstrip(".") + "s"
