"""Problem detectors: tools that answer with nothing, which models often take for success, and ambiguous dates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sessions_app.problems import (
    DetectorScope,
    Evidence,
    Link,
    Problem,
    Severity,
    StateEvidence,
    detector,
    links_to_writes,
)

EMPTY: tuple[dict[str, object], ...] = ({}, {"result": None}, {"result": ""}, {"result": []})


@detector(
    "empty-result",
    "Tool answered with nothing",
    severity=Severity.NOTE,
    remedy="Return a sentence that says what the tool did or did not find.",
)
def empty_result(evidence: Evidence) -> Iterator[Problem]:
    """Find results without content."""
    for result in evidence.results:
        if result.response in EMPTY:
            yield Problem(
                f"{result.name} answered with nothing.",
                result.seq,
                result.agent,
                [Link("event", result.seq, "result")],
            )


AMBIGUOUS_DATE = re.compile(r'"\d{1,2}/\d{1,2}/\d{4}"')


@detector(
    "ambiguous-date",
    "Ambiguous date",
    scope=DetectorScope.STATE,
    severity=Severity.NOTE,
    remedy="Write dates in ISO format, such as `2027-04-03`: models read `03/04/2027` as March or as April.",
)
def ambiguous_date(evidence: StateEvidence) -> Iterator[Problem]:
    """Find values with a date whose day and month can be confused."""
    for key in evidence.keys:
        if match := AMBIGUOUS_DATE.search(key.text):
            yield Problem(f"has the date {match[0]}.", key=key.name, links=links_to_writes(key.writes[:1]))
