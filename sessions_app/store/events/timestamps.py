"""Parse timestamps of other stores: seconds, milliseconds, microseconds, nanoseconds or text."""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo
from typing import Any

_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""(smallest value, units per second). 1e11 seconds is the year 5138."""


def parse_timestamp(value: Any, zone: tzinfo = UTC) -> float:
    """Return a timestamp in epoch seconds. A text or datetime without a time zone is taken to be in `zone`.

    Raises:
        ValueError: the value is not a timestamp; the message quotes it.
    """
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=zone)).timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return next((value / per for least, per in _UNITS if abs(value) >= least), float(value))
    if isinstance(value, str):
        return _parse_text(value.strip(), zone)
    raise ValueError(f"{str(value)[:40]!r} is no time")


def is_in_milliseconds(value: Any) -> bool:
    """Tell whether a number is in milliseconds, as in the JS and Java ADKs."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e11 <= abs(value) < 1e14


def _parse_text(text: str, zone: tzinfo) -> float:
    try:
        return parse_timestamp(float(text))
    except ValueError:
        pass
    try:
        return parse_timestamp(datetime.fromisoformat(text), zone)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no time") from None
