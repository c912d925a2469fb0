"""Detector of errors that an agent's code logs or prints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from sessions_app.presentation.visible_text import strip_terminal_codes
from sessions_app.problems.evidence import Evidence, LoggedError
from sessions_app.problems.failures import find_failures, is_same_error
from sessions_app.problems.registry import Link, Problem, detector, quote
from sessions_app.store.models import Trace

ADK_LOGGERS = "google_adk."
"""Start of the names of ADK's loggers. ADK logs an exception several times on its way out of agents."""


@detector(
    "logged-error",
    "Error in the log",
    remedy="Open the log line: the lines around it show what the code did. If a library logs an error that it handles,"
    " raise the level of its logger.",
)
def logged_error(evidence: Evidence) -> Iterator[Problem]:
    """Find log records and printed lines of level ERROR or above that repeat no other failure."""
    failures = find_failures(evidence)
    reported = [failure.message for failure in failures]
    reported += [stage.of.partition(": ")[2] for stage in evidence.stages if stage.name == Trace.LOST_TOOLSET]
    same: defaultdict[tuple[str, str], list[LoggedError]] = defaultdict(list)
    for record in evidence.logged_errors:
        is_of_adk = record.logger.startswith(ADK_LOGGERS)
        if record.raised_by or (is_of_adk and failures):
            continue
        if not any(is_same_error(message, record) for message in reported):
            same[record.logger, _first_sentence(record.message)].append(record)
    for (logger, text), records in same.items():
        times = f" ({len(records):,} times)" if len(records) > 1 else ""
        first = records[0]
        yield Problem(
            f"{quote(logger) if logger else 'The agent’s code'} {'logged' if logger else 'printed'}{times}: {text}",
            first.seq,
            first.agent,
            [Link("log", first.pk), *([Link("event", first.seq, "before it")] if first.seq else [])],
        )


def _first_sentence(message: str) -> str:
    """Return the first line of a message, and the last one of its traceback."""
    lines = [line for line in strip_terminal_codes(message).splitlines() if line.strip()] or [""]
    has_traceback = len(lines) > 2 and not lines[-1].startswith((" ", "|"))
    return quote(f"{lines[0]}: {lines[-1]}" if has_traceback else lines[0], 300)
