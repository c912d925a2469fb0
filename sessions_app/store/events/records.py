"""Convert wire events to the rows that are stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sessions_app.store import scopes
from sessions_app.store.events import attribution
from sessions_app.store.events.attribution import UNKNOWN, Writer
from sessions_app.store.events.content import (
    failed_results,
    function_responses,
    is_final_response,
    message_text,
    without_internals,
)
from sessions_app.store.events.kinds import EventKind, is_error, recognize_kind
from sessions_app.store.events.summary import CUT_OFF, read_token_counts, summarize
from sessions_app.store.models import Scope
from sessions_app.store.redaction import redact, redact_error_texts

UNKNOWN_FIELDS = "devui_unknown"
"""Key of `customMetadata` for values of imported events without a field in ADK's models, by path."""

MAX_TOKENS = 2**31 - 1
"""Largest value of the token column."""


@dataclass(frozen=True, slots=True)
class StateWrite:
    """One key of a state delta, ready to be stored. With `removed` it is a tombstone."""

    scope: Scope
    key: str
    value: scopes.CanonicalValue
    writer: Writer = UNKNOWN
    removed: bool = False

    @property
    def name(self) -> str:
        """The key with its scope's prefix."""
        return scopes.PREFIX[self.scope] + self.key


@dataclass(frozen=True, slots=True)
class TempKeyWrite:
    """One `temp:` key of an event, as the recorder observed it."""

    key: str
    value: scopes.CanonicalValue
    writer: Writer = UNKNOWN


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event ready to be stored.

    Attributes:
        event_id, invocation_id, author, branch: as in the event.
        kind, is_final, is_error: what its content makes it.
        timestamp: epoch seconds.
        total_tokens: of the model call that made it; 0 if none did.
        text: its words for search.
        summary: bounded JSON that a timeline row shows.
        data: the event in wire form without credentials.
        private: what `data` lacks of credentials, as JSON; None if it lacks none.
        writes: writes of session, user and app keys, in locking order.
        temp: writes of `temp:` keys, which are never state.
    """

    event_id: str
    invocation_id: str
    author: str
    kind: EventKind
    timestamp: float
    branch: str
    is_final: bool
    is_error: bool
    total_tokens: int
    text: str
    summary: str
    data: str
    private: str | None
    writes: list[StateWrite] = field(default_factory=list)
    temp: list[TempKeyWrite] = field(default_factory=list)


def build_record(
    wire: Mapping[str, Any],
    *,
    delta: Mapping[str, Any] | None = None,
    writers: Mapping[str, Writer] | None = None,
    keep_temp: bool = False,
    model: str = "",
    person: str = "",
) -> EventRecord:
    """Return the row of a wire event. Values that no store can hold are converted, so that the event is never lost.

    Args:
        wire: the whole event in wire form. It is not changed; the stored form has the canonical state delta.
        delta: the state delta as Python values; default: the delta in `wire`.
        writers: the observed writer of each prefixed key.
        keep_temp: include `temp:` keys as ghost keys.
        model: the model that was asked for the event, if known; the wire form has only the version that answered.
        person: name of the person who added the event by hand; empty: unknown.
    """
    if delta is None:
        delta = (wire.get("actions") or {}).get("stateDelta") or {}
    try:
        return _build_record(wire, delta, writers or {}, keep_temp, model, person)
    except (ValueError, RecursionError):
        return _build_record(scopes.to_jsonable(wire), delta, writers or {}, keep_temp, model, person)


def _build_record(
    wire: Mapping[str, Any],
    delta: Mapping[str, Any],
    writers: Mapping[str, Writer],
    keep_temp: bool,
    model: str,
    person: str,
) -> EventRecord:
    """Return the row of a wire event.

    Raises:
        ValueError: a value is not storable JSON (see `scopes.dump_storable`).
        RecursionError: the event is nested too deeply.
    """
    scoped = scopes.split_delta(delta)
    all_writers = {**_infer_writers(wire, delta), **writers}
    writer_by_key = {scopes.canonicalize_key(key): writer for key, writer in all_writers.items()}
    writes = [
        StateWrite(scope, key, value, writer_by_key.get(scopes.PREFIX[scope] + key, UNKNOWN))
        for scope, key, value in scoped.canonical_values()
    ]
    wire = {**wire, "actions": {**(wire.get("actions") or {}), "stateDelta": _stored_delta(delta, writes)}}
    temp = [
        TempKeyWrite(
            key, scopes.canonicalize(value, key), writer_by_key.get(scopes.TEMP_PREFIX + key, UNKNOWN)
        )
        for key, value in scoped.temp.items()
    ]
    public = _without_credentials(wire)
    data = scopes.dump_storable(public)
    summary = summarize(public, model) | ({"person": person} if person else {})
    if scopes.has_cut_value(data):
        summary["flags"] = [*summary.get("flags", ()), CUT_OFF]
    return EventRecord(
        event_id=wire["id"],
        invocation_id=wire.get("invocationId") or "",
        author=scopes.clean_text(wire.get("author") or ""),
        kind=recognize_kind(wire),
        timestamp=wire["timestamp"],
        branch=scopes.clean_text(wire.get("branch") or ""),
        is_final=is_final_response(wire),
        is_error=is_error(wire),
        total_tokens=min(read_token_counts(wire).get("total", 0), MAX_TOKENS),
        text=scopes.clean_text(summary.get("text", "")),
        summary=scopes.dump_storable(summary),
        data=data,
        private=None if public == wire else scopes.dump_storable(wire),
        writes=writes,
        temp=temp if keep_temp else [],
    )


def _without_credentials(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Return the public form: without ADK's internal metadata, credentials, and API keys in error texts."""
    public: dict[str, Any] = redact(without_internals(wire))
    if public.get("errorMessage"):
        public["errorMessage"] = redact_error_texts(public["errorMessage"])
    for response in failed_results(public):
        response["response"] = redact_error_texts(response["response"])
    return public


def mark_removed(record: EventRecord, keys: Collection[str]) -> EventRecord:
    """Return the record with tombstones for these prefixed keys, which must be in its delta."""
    removed = set(map(scopes.canonicalize_key, keys))
    writes = [replace(write, removed=write.name in removed) for write in record.writes]
    return replace(record, writes=writes)


def _stored_delta(delta: Mapping[str, Any], writes: list[StateWrite]) -> dict[str, Any]:
    """Return the canonical delta in its original order."""
    stored = {write.name: write.value.data for write in writes}
    return {key: stored[key] for key in map(scopes.canonicalize_key, delta) if key in stored}


def _infer_writers(wire: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Writer]:
    author, responses = wire.get("author") or "", function_responses(wire)
    return attribution.infer_writers(delta, author=author, responses=responses, text=message_text(wire))
