"""Writes of nested runs, as the recorder observed them: the link to the call, and the session with events and state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.db.models import QuerySet

from sessions_app.store import realms
from sessions_app.store.database import change_notification
from sessions_app.store.database.statements import FIND_SESSION
from sessions_app.store.events import EventRecord
from sessions_app.store.events.conditions import HAS_CALLS
from sessions_app.store.ids import check_ids
from sessions_app.store.models import Event, NestedRun
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes

ORIGIN = "nested"
"""`origin` of the session of a nested run."""

CALLS_SCANNED = 200
"""Newest events with calls in which the call of a nested run is searched. Usually the newest event has it."""

_UPDATED = (
    *("caller_seq", "outer_seq", "finished_at", "changed_at", "error"),
    *("event_count", "stored_count"),
)
"""Columns of a nested run that change."""

_FIND_RUN = (
    "SELECT run.id, run.child_id, run.caller_id, run.caller_seq, run.outer_seq FROM sessions_app_nestedrun run"
    " JOIN sessions_app_agentsession child ON child.id = run.child_id WHERE child.realm = %s"
)
_UPDATE_RUN = (
    f"UPDATE sessions_app_nestedrun SET {', '.join(f'{name} = %s' for name in _UPDATED)} WHERE id = %s"  # noqa: S608 - our own columns
)


class _StoredRun(NamedTuple):
    """The keys of a stored nested run."""

    pk: int
    child_pk: int
    caller_pk: int
    caller_seq: int | None
    outer_seq: int | None


class NestedRunOrigin(NamedTuple):
    """Identity of a nested run: ADK's id of its invocation, and the call that it carries out.

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
        key: the key of the outer session.
        origin: the run and its call.
        run: the run as of now, without its sessions and the seqs of their events.
        state: the state at its start, without credentials.
        record: an event of the run. Its credentials are not stored.

    Raises:
        BadInput: an id of the run cannot be stored.
    """
    with (
        connection.cursor() as cursor
    ):  # plain SQL takes half the time, and this runs with every nested event
        cursor.execute(FIND_SESSION, key)
        session = cursor.fetchone()
        if session is None:
            return True
        [run.outer_id] = session
        child = check_ids(realms.nested_key(key, run.outer_id, origin.ref))
        caller = None
        if origin.caller_ref:
            caller = _find_run(cursor, realms.nested_key(key, run.outer_id, origin.caller_ref))
        if stored := _find_run(cursor, child):
            run.caller_id, run.caller_seq, run.outer_seq = stored[2:]
            _find_call_seqs(origin, run, caller)
            cursor.execute(_UPDATE_RUN, (*(getattr(run, name) for name in _UPDATED), stored.pk))
        else:
            run.pk, run.caller_seq, run.outer_seq = None, None, None
            run.caller_id = caller.child_pk if caller else run.outer_id
            run.child = writes.create_session(child, state, origin=ORIGIN, now=run.started_at)
            _find_call_seqs(origin, run, caller)
            run.save(force_insert=True)
    if record is not None:
        writes.append_event(child, _without_credentials(record))
    change_notification.notify_after_commit()
    return True


def _find_run(cursor: CursorWrapper, child: SessionKey) -> _StoredRun | None:
    """Return a stored nested run by the key of its session."""
    cursor.execute(_FIND_RUN, (child.realm,))
    row = cursor.fetchone()
    return _StoredRun(*row) if row else None


def _find_call_seqs(origin: NestedRunOrigin, run: NestedRun, caller: _StoredRun | None) -> None:
    """Set the seqs of the events with the call and with the outermost call, if they are stored by now.

    Args:
        caller: the nested run that made the call; None: the outer session did.
    """
    if run.caller_seq is None:
        run.caller_seq = _find_call(run.caller_id, origin)
    run.outer_seq = caller.outer_seq if caller else run.caller_seq


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
