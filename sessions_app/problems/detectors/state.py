"""Detectors of problems with state: lost changes, altered values, and keys without a value."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from sessions_app.problems.evidence import Evidence, KeyWrite, TempKey
from sessions_app.problems.failures import ObservedFailure, find_failures
from sessions_app.problems.registry import Link, Problem, Severity, detector, quote
from sessions_app.store import scopes
from sessions_app.store.events.error_causes import ErrorCause
from sessions_app.store.models import Trace
from sessions_app.store.short_texts import join_names


@detector(
    "untracked-state",
    "State changed without an event",
    remedy="Change state through the context (`tool_context.state[…]`, `callback_context.state[…]`), an `output_key` or"
    " `EventActions.state_delta`. Assign a changed list or dict again. Changes of `session.state` itself are lost.",
)
def untracked_state(evidence: Evidence) -> Iterator[Problem]:
    """Find keys that the agent changed only in its own copy of the state."""
    for change in evidence.untracked:
        verb = "removed" if change.is_removed else "changed"
        yield Problem(
            f"{quote(change.name)} was {verb} without an event, so the next invocation does not see the change.",
            links=[Link("event", evidence.last_seq, "state")] if evidence.last_seq else [],
        )


@detector(
    "altered-value",
    "Value stored differently than it was written",
    remedy="Nest values at most 100 levels deep, never put a value into itself, and write names of keys without NUL and"
    " halves of characters. Keep deeper structures as text (`json.dumps`) or as an artifact.",
)
def altered_value(evidence: Evidence) -> Iterator[Problem]:
    """Find values that were cut off, and keys whose names had characters that no store holds."""
    cut_keys: defaultdict[int, list[str]] = defaultdict(list)
    for write in evidence.writes:
        links = [Link("event", write.seq)] if write.seq else []
        if scopes.RENAMED in write.notes:
            text = f"{quote(write.name)} was written with NUL or half of a character in its name, which � replaces."
            yield Problem(text, write.seq, write.agent, links)
        if scopes.ALTERED.intersection(write.notes) - {scopes.RENAMED}:
            cut_keys[write.seq].append(write.name)
    agents = {event.seq: event.agent for event in evidence.events if event.is_cut_off}
    for seq in sorted({*cut_keys, *agents}):
        what = (
            f"The value of {join_names([*map(quote, cut_keys[seq])])}"
            if cut_keys[seq]
            else "A value of the event"
        )
        yield Problem(
            f"{what} was nested deeper than {scopes.MAX_DEPTH} levels or inside itself: a text such as"
            f" “<dict nested deeper than {scopes.MAX_DEPTH} levels>” stands for what was cut off.",
            seq,
            agents.get(seq, ""),
            [Link("event", seq)] if seq else [],
        )


@detector(
    "unusable-initial-state",
    "initial_state.json cannot be used",
    remedy='Correct the file in the folder of the agent: it holds one JSON object, such as `{"city": "Rome"}`. Then'
    " create a new session: this one began without it.",
)
def unusable_initial_state(evidence: Evidence) -> Iterator[Problem]:
    """Report an initial state file that could not be read when the session was created."""
    if fault := evidence.initial_state_fault:
        yield Problem(f"The session began without the state of initial_state.json: {quote(fault)}.")


@detector(
    "overwritten-key",
    "State key written by two agents",
    severity=Severity.NOTE,
    remedy="If both values are needed, give each agent its own `output_key` or state key. If one agent refines the"
    " other's value, nothing is wrong.",
)
def overwritten_key(evidence: Evidence) -> Iterator[Problem]:
    """Find keys with a value that another agent replaced within the invocation."""
    last: dict[str, KeyWrite] = {}
    for write in evidence.writes:
        before = last.get(write.name)
        last[write.name] = write
        is_replaced = before and before.agent != write.agent and before.value != write.value
        if before and is_replaced and None not in (before.value, write.value):
            yield Problem(
                f"{write.agent} replaced the value of {quote(write.name)} that {before.agent} wrote.",
                write.seq,
                write.agent,
                [Link("event", before.seq, "first value"), Link("event", write.seq, "new value")],
            )


@detector(
    "lost-write",
    "Tools that ran at once overwrote each other’s state",
    remedy="Let each call write a key of its own, or return the values and store them in one place (an"
    " `after_tool_callback` adds to the key without waiting in between). Or tell the model to make the calls one after"
    " the other: ADK runs the calls of one response at once, and the last value of a key wins.",
)
def lost_write(evidence: Evidence) -> Iterator[Problem]:
    """Find keys for which calls of one event wrote values that the stored value does not have."""
    for stage in evidence.stages:
        if stage.name == Trace.LOST_WRITE:
            write = _merged_write(evidence, stage.of.partition(": ")[0])
            links = [Link("event", write.seq, "stored value")] if write else []
            agent = write.agent if write else ""
            links.append(Link("trace", evidence.trace_pk))
            yield Problem(f"{quote(stage.of, 390)}.", write.seq if write else 0, agent, links)


def _merged_write(evidence: Evidence, name: str) -> KeyWrite | None:
    """Return the last write of a key by an event with several results."""
    results = Counter(result.seq for result in evidence.results if not result.is_nested)
    merged = (write for write in reversed(evidence.writes) if results[write.seq] > 1)
    return next((write for write in merged if write.name == name), None)


@detector(
    "temp-read-later",
    "temp: key read in a later invocation",
    severity=Severity.ERROR,
    remedy="If a later invocation needs the value, store it under a key without `temp:`, or write it again before it is"
    " read: `temp:` keys are discarded at the end of their invocation.",
)
def temp_read_later(evidence: Evidence) -> Iterator[Problem]:
    """Find failures because of a missing `temp:` key that an earlier invocation wrote."""
    for failure, key in _missing_keys(evidence):
        if write := _earlier_write(evidence, key):
            yield Problem(
                f"{quote(key)} has no value in this invocation; an earlier one wrote it.",
                failure.seq,
                failure.agent,
                [*failure.links, Link("event", write.seq, "last write")],
            )


@detector(
    "missing-key",
    "Missing state key",
    severity=Severity.ERROR,
    remedy="Set the key before the agent runs (initial state, a callback, an earlier agent's `output_key`), or write"
    " `{key?}` in the instruction, which inserts nothing for a missing key. If the braces are meant literally"
    " (`{{literal}}`), write `\\{`, which the model gets with the backslash, or return the text from a function as"
    " `instruction`.",
)
def missing_key(evidence: Evidence) -> Iterator[Problem]:
    """Find failures because of a missing key that an instruction or code names."""
    for failure, key in _missing_keys(evidence):
        if not _earlier_write(evidence, key):
            yield failure.problem(f"{quote(key)} has no value: {quote(failure.message)}")


_KEY = re.compile(r"Context variable not found: `([^`]+)`|KeyError: ['\"]+((?:temp|user|app):[^'\"]+)")


def _missing_keys(evidence: Evidence) -> Iterator[tuple[ObservedFailure, str]]:
    for failure in find_failures(evidence):
        if failure.cause is ErrorCause.MISSING_KEY and (match := _KEY.search(failure.message)):
            yield failure, match[1] or match[2]


def _earlier_write(evidence: Evidence, key: str) -> TempKey | None:
    if not key.startswith(scopes.TEMP_PREFIX):
        return None
    return next((write for write in evidence.earlier_temp if write.name == key), None)
