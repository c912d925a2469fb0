"""A problem detector: tools that answer with nothing, which models often take for success."""

from __future__ import annotations

from collections.abc import Iterator

from sessions_app.problems import Evidence, Link, Problem, Severity, detector

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
