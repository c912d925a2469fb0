"""Writes of nested runs, as the recorder observed them: the link to the call, and the session with events and state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet

from sessions_app.store import realms
from sessions_app.store.database import change_notification
from sessions_app.store.database.statements import FIND_SESSION
from sessions_app.store.events import EventRecord
from sessions_app.store.events.conditions import HAS_CALLS
from sessions_app.store.models import Event, NestedRun
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes

ORIGIN = "nested"
"""`origin` of the session of a nested run."""

CALLS_SCANNED = 200
"""Newest events with calls in which the call of a nested run is searched. Usually the newest event has it."""

_UPDATED = ("finished_at", "changed_at", "error", "event_count", "stored_count")
_FIND_RUN = (
    "SELECT run.id, run.caller_id, run.caller_seq, run.outer_seq FROM sessions_app_nestedrun run"
    " JOIN sessions_app_agentsession child ON child.id = run.child_id WHERE child.realm = %s"
)
_FIND_CALLER = (
    "SELECT run.child_id, run.outer_seq FROM sessions_app_nestedrun run"
    " JOIN sessions_app_agentsession child ON child.id = run.child_id WHERE child.realm = %s"
)
_UPDATE_RUN = (
    "UPDATE sessions_app_nestedrun SET caller_seq = %s, outer_seq = %s, finished_at = %s, changed_at = %s, error = %s,"
    " event_count = %s, stored_count = %s WHERE id = %s"
)


class NestedRunOrigin(NamedTuple):
    """What identifies a nested run, and the call that it carries out.

    Attributes:
        ref: ADK's id of the nested invocation, which becomes the id of the run's session.
        call_id: id of the call.
        event_id: id of the event with the call; empty: unknown, because an earlier invocation has it (a person
            confirmed the call).
        caller_ref: `ref` of the nested run with the call; empty: the session itself has it.
    """

    ref: str
    call_id: str
    event_id: str = ""
    caller_ref: str = ""


def save_nested(
    key: SessionKey,
    origin: NestedRunOrigin,
    run: NestedRun,
    state: Mapping[str, Any],
    record: EventRecord | None = None,
) -> bool:
    """Create or update a nested run, and store one of its events.

    Does nothing if the session does not exist. May be repeated.

    Args:
        key: the key of the session that is not nested.
        origin: the run and its call.
        run: the run as of now, without its sessions and the seqs of their events.
        state: the state at its start, without credentials.
        record: an event of the run. Its credentials are not stored.
    """
    with connection.cursor() as cursor:  # plain SQL: this runs with every nested event
        cursor.execute(FIND_SESSION, key)
        session = cursor.fetchone()
        if session is None:
            return True
        [run.outer_id] = session
        child = realms.nested_key(key, run.outer_id, origin.ref)
        cursor.execute(_FIND_RUN, (child.realm,))
        row = cursor.fetchone()
        if row is None:
            _create_run(key, origin, run, child, state)
        else:
            pk, run.caller_id, run.caller_seq, run.outer_seq = row
            _find_call_seqs(key, origin, run)
            values = (run.caller_seq, run.outer_seq, *(getattr(run, name) for name in _UPDATED), pk)
            cursor.execute(_UPDATE_RUN, values)
    if record is not None:
        writes.append_event(child, _without_credentials(record))
    change_notification.notify_after_commit()
    return True


def _create_run(
    key: SessionKey, origin: NestedRunOrigin, run: NestedRun, child: SessionKey, state: Mapping[str, Any]
) -> None:
    """Store a new nested run with its session."""
    run.caller_id = run.outer_id
    if origin.caller_ref:
        with connection.cursor() as cursor:
            cursor.execute(_FIND_CALLER, (realms.nested_key(key, run.outer_id, origin.caller_ref).realm,))
            if caller := cursor.fetchone():
                run.caller_id = caller[0]
    run.child = writes.create_session(child, state, origin=ORIGIN, now=run.started_at)
    run.pk, run.caller_seq, run.outer_seq = None, None, None
    _find_call_seqs(key, origin, run)
    run.save(force_insert=True)


def _find_call_seqs(key: SessionKey, origin: NestedRunOrigin, run: NestedRun) -> None:
    """Set the seqs of the events with the call and with the outermost call, if they are stored by now."""
    if run.caller_seq is None:
        run.caller_seq = _find_call(run.caller_id, origin)
    if run.outer_seq is not None:
        return
    if run.caller_id == run.outer_id:
        run.outer_seq = run.caller_seq
        return
    with connection.cursor() as cursor:
        cursor.execute(_FIND_CALLER, (realms.nested_key(key, run.outer_id, origin.caller_ref).realm,))
        caller = cursor.fetchone()
        run.outer_seq = caller[1] if caller else None


def _find_call(session_pk: int, origin: NestedRunOrigin) -> int | None:
    """Return the seq of the session's event with a call; None if it is not stored yet.

    If the event is unknown, it is the newest one with a call of this id.
    """
    if origin.event_id:
        named = Event.objects.filter(session=session_pk, event_id=origin.event_id)
        return named.values_list("seq", flat=True).first()
    events: QuerySet[Event] = Event.objects.filter(HAS_CALLS, session=session_pk).order_by("-seq")
    for seq, summary in events.values_list("seq", "summary")[:CALLS_SCANNED]:
        if any(made["id"] == origin.call_id for made in json.loads(summary).get("calls", ())):
            return int(seq)
    return None


def _without_credentials(record: EventRecord) -> EventRecord:
    """Drop private values: only a `Runner` needs them, and a nested session is never continued."""
    public_writes = [replace(write, value=replace(write.value, private=None)) for write in record.writes]
    return replace(record, private=None, writes=public_writes)
