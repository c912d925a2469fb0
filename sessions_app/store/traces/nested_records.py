"""Writes of nested runs and their events, as the recorder observed them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet

from sessions_app.store.database import change_notification
from sessions_app.store.database.statements import FIND_SESSION, insert_sql
from sessions_app.store.events.conditions import HAS_CALLS
from sessions_app.store.models import Event, NestedEvent, NestedRun
from sessions_app.store.session_key import SessionKey

CALLS_SCANNED = 200
"""Newest events with calls in which the call of a nested run is searched. Usually the newest event has it."""

CUT_OFF = "Cut off: the call was cancelled, or the process ended."
"""Error of a nested run whose end was not recorded."""

_UPDATED = ("finished_at", "changed_at", "error", "event_count", "stored_count", "total_tokens", "usage")
_EVENT_FIELDS = [field.attname for field in NestedEvent._meta.concrete_fields if not field.primary_key]

_FIND_RUN = "SELECT id, seq FROM sessions_app_nestedrun WHERE session_id = %s AND ref = %s"
_UPDATE_RUN = (
    "UPDATE sessions_app_nestedrun SET seq = %s, finished_at = %s, changed_at = %s, error = %s,"
    " event_count = %s, stored_count = %s, total_tokens = %s, usage = %s WHERE id = %s"
)
_INSERT_EVENT = f"{insert_sql(NestedEvent)} ON CONFLICT DO NOTHING"


class TopCall(NamedTuple):
    """The outermost call of a nested run: its id, and the id of the session's event that has it; empty: unknown.

    The event is unknown if an earlier invocation has it, because a person confirmed the call.
    """

    call_id: str
    event_id: str = ""


def save_nested(key: SessionKey, run: NestedRun, top: TopCall, event: NestedEvent | None = None) -> bool:
    """Create or update a nested run, by its `ref`, and store one of its events.

    Does nothing if its session does not exist. May be repeated.

    Args:
        key: the session's key.
        run: the run as of now, without its session and the seq of its call.
        top: the outermost call, which an event of the session has.
        event: an event of the run, without its session.
    """
    with connection.cursor() as cursor:  # plain SQL: this runs with every nested event
        cursor.execute(FIND_SESSION, key)
        session = cursor.fetchone()
        if session is None:
            return True
        [session_pk] = session
        cursor.execute(_FIND_RUN, (session_pk, run.ref))
        row = cursor.fetchone()
        if row is None:
            run.pk, run.session_id = None, session_pk
            run.seq = _find_call(session_pk, run, top)
            run.save(force_insert=True)
        else:
            seq = _find_call(session_pk, run, top) if row[1] is None else row[1]
            cursor.execute(_UPDATE_RUN, (seq, *(getattr(run, name) for name in _UPDATED), row[0]))
        if event is not None:
            event.session_id = session_pk
            cursor.execute(_INSERT_EVENT, [getattr(event, name) for name in _EVENT_FIELDS])
    change_notification.notify_after_commit()
    return True


def close_unfinished(at: float, **of: Any) -> None:
    """End the unfinished nested runs of invocations that have ended.

    Args:
        at: end time, in seconds since the epoch.
        of: conditions on columns that select the runs.
    """
    NestedRun.objects.filter(finished_at=None, **of).update(finished_at=at, changed_at=at, error=CUT_OFF)


def _find_call(session_pk: int, run: NestedRun, top: TopCall) -> int | None:
    """Return the seq of the session's event with the call of a nested run; None if it is not stored yet.

    If the event is unknown, it is the newest one with a call of this id.
    """
    if run.parent_ref:
        parents = NestedRun.objects.filter(session=session_pk, ref=run.parent_ref)
        return parents.values_list("seq", flat=True).first()
    if top.event_id:
        named = Event.objects.filter(session=session_pk, event_id=top.event_id)
        return named.values_list("seq", flat=True).first()
    calls: QuerySet[Event] = Event.objects.filter(HAS_CALLS, session=session_pk).order_by("-seq")
    for seq, summary in calls.values_list("seq", "summary")[:CALLS_SCANNED]:
        if any(call["id"] == top.call_id for call in json.loads(summary).get("calls", ())):
            return int(seq)
    return None
