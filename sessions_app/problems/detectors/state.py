"""Detectors of problems with state: lost changes, and keys without a value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sessions_app import scopes
from sessions_app.problems.evidence import Evidence, TempKey
from sessions_app.problems.failures import Cause, Failure, failures_of
from sessions_app.problems.registry import Link, Problem, Severity, detector, quote


@detector(
    "untracked-state",
    "State changed without an event",
    remedy="Change state through the context (`tool_context.state[…]`, `callback_context.state[…]`), an output_key or"
    " `EventActions.state_delta`; assign a changed list or dict again. A change of `session.state` is lost.",
)
def untracked_state(evidence: Evidence) -> Iterator[Problem]:
    """Find keys that the agent changed only in its own copy of the state."""
    for change in evidence.untracked:
        how = "was removed" if change.is_removed else "was changed"
        yield Problem(
            f"{quote(change.name)} {how} without an event, so the next invocation does not see it.",
            links=[Link("event", evidence.last_seq, "state")] if evidence.last_seq else [],
        )


@detector(
    "temp-read-later",
    "temp: key read in a later invocation",
    severity=Severity.ERROR,
    remedy="Keep it without `temp:` if a later invocation needs it, or write it again before it is read: `temp:` keys"
    " end with their invocation.",
)
def temp_read_later(evidence: Evidence) -> Iterator[Problem]:
    """Find failures for want of a `temp:` key that an earlier invocation wrote."""
    for failure, key in _missing_keys(evidence):
        if written := _earlier_write(evidence, key):
            yield Problem(
                f"{quote(key)} has no value in this invocation; it was written in an earlier one.",
                failure.seq,
                failure.agent,
                [*failure.links, Link("event", written.seq, "written")],
            )


@detector(
    "missing-key",
    "Missing state key",
    severity=Severity.ERROR,
    remedy="Set the key before the agent runs (initial state, a callback, an earlier agent's output_key), or write"
    " `{key?}` in the instruction, which is empty without a value.",
)
def missing_key(evidence: Evidence) -> Iterator[Problem]:
    """Find failures for want of a key that an instruction or code names."""
    for failure, key in _missing_keys(evidence):
        if not _earlier_write(evidence, key):
            yield Problem(
                f"{quote(key)} has no value: {quote(failure.message)}",
                failure.seq,
                failure.agent,
                failure.links,
            )


_KEY = re.compile(r"Context variable not found: `([^`]+)`|KeyError: ['\"]+((?:temp|user|app):[^'\"]+)")


def _missing_keys(evidence: Evidence) -> Iterator[tuple[Failure, str]]:
    for failure in failures_of(evidence):
        if failure.cause is Cause.MISSING_KEY and (match := _KEY.search(failure.message)):
            yield failure, match[1] or match[2]


def _earlier_write(evidence: Evidence, key: str) -> TempKey | None:
    if not key.startswith(scopes.TEMP_PREFIX):
        return None
    return next((each for each in evidence.earlier_temp if each.name == key), None)
