"""Detectors of problems with memory."""

from __future__ import annotations

from collections.abc import Iterator

from sessions_app.problems.evidence import Evidence
from sessions_app.problems.registry import Link, Problem, Severity, detector, quote
from sessions_app.store.events.content import is_failed_result

MEMORY_TOOL = "load_memory"
"""Name of ADK's tool that searches memory."""


@detector(
    "nothing-remembered",
    "Memory search found nothing",
    severity=Severity.NOTE,
    remedy="Check that earlier sessions of this user were added to memory (the page Memory lists the entries), and that"
    " the query uses their words.",
)
def nothing_remembered(evidence: Evidence) -> Iterator[Problem]:
    """Find memory searches without a result."""
    for result in evidence.results:
        if result.name != MEMORY_TOOL or result.response is None or is_failed_result(result.response):
            continue
        memories = result.response.get("memories")
        if memories is None and isinstance(inner := result.response.get("result"), dict):
            memories = inner.get("memories")
        if memories == []:
            query = (result.call.args or {}).get("query") or "" if result.call else ""
            yield Problem(
                f"The memory search for “{quote(str(query))}” found nothing.",
                result.seq,
                result.agent,
                [Link("event", result.seq, "result")],
            )
