"""A lint rule: dates in the state should be in ISO format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sessions_app.state.lint import Evidence, Finding, rule, write_occurrences

AMBIGUOUS_DATE = re.compile(r'"\d{1,2}/\d{1,2}/\d{4}"')


@rule(
    "ambiguous-date",
    "ambiguous date",
    remedy="Write dates in ISO format, such as `2027-04-03`: models read `03/04/2027` as March or as April.",
)
def ambiguous_date(evidence: Evidence) -> Iterator[Finding]:
    """Find values with a date whose day and month can be confused."""
    for key in evidence.keys:
        if match := AMBIGUOUS_DATE.search(key.text):
            yield Finding(key.name, f"has the date {match[0]}.", write_occurrences(key.writes[:1]))
