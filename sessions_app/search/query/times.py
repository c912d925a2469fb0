"""Times and durations in queries. Pure. Days are UTC, so a query means the same everywhere."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from sessions_app.store import durations
from sessions_app.store.errors import BadInput

_BARE = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)

_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d|today|yesterday", re.ASCII | re.IGNORECASE)


def parse_time(text: str, now: float | None = None) -> float:
    """Return the epoch seconds of a day, a time, or a duration before now.

    Examples: `2026-11-01`, `2026-11-01T10:30`, `today`, `2h`.

    Raises:
        BadInput: the text is none of these.
    """
    current = time.time() if now is None else now
    word = text.lower()
    if word in ("today", "yesterday"):
        midnight = datetime.fromtimestamp(current, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight - timedelta(days=word == "yesterday")).timestamp()
    try:
        return _parse_calendar(text)
    except (ValueError, OverflowError):
        pass
    try:
        return current - durations.parse(text)
    except BadInput as error:
        raise BadInput(
            f"{text[:40]!r} is not a day or time.",
            hint="Write 2026-11-01, 2026-11-01T10:30, today, or 2h for two hours ago.",
        ) from error


def parse_period(text: str) -> tuple[float, float]:
    """Return start and end of a day such as `2026-11-01` or `today`, or of an hour such as `2026-11-01T10`.

    Raises:
        BadInput: the text is neither.
    """
    is_hour = bool(_HOUR.fullmatch(text))
    if not is_hour and not _DAY.fullmatch(text):
        raise BadInput(
            f"{text[:40]!r} is not a day or an hour.",
            hint="Write 2026-11-01, 2026-11-01T10, today or yesterday.",
        )
    start = parse_time(f"{text}:00" if is_hour else text)
    return start, start + (3_600 if is_hour else 86_400)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `500ms`, `30s`, `2h` or `1.5d`; a bare number is in seconds.

    Raises:
        BadInput: the text is not a duration.
    """
    number = text.removesuffix("ms")
    if _BARE.fullmatch(number):
        return float(number) / (1 if number == text else 1_000)
    return durations.parse(text)


def _parse_calendar(text: str) -> float:
    parsed = datetime.fromisoformat(text)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
