"""Writes of recorded model calls with their pieces, spans and stages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db import connection
from django.db.models import Value
from django.db.models.functions import Greatest

from sessions_app.store import scopes
from sessions_app.store.database import change_notification
from sessions_app.store.index import index_backlog
from sessions_app.store.models import ModelCall, Span, Trace
from sessions_app.store.session_key import SessionKey
from sessions_app.store.traces import nested_records
from sessions_app.store.traces.content_store import Piece

MAX_ERROR = 10_000
MAX_STAGES = 1_000
"""Maximum number of stored stages of an invocation."""

PIECES_PER_QUERY = 400
"""Pieces looked up per query."""

MAX_PIECES = 500
"""Pieces stored per transaction, since appends may wait for it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that an invocation reached: name, time, and agent or tool."""

    name: str
    at: float
    of: str = ""


UPDATED_COLUMNS = (
    *("first_at", "finished_at", "request", "response", "chunks", "event_id", "event_ids", "by_callback"),
    *("model", "error_type", "error", "prompt_tokens", "output_tokens", "thought_tokens", "cached_tokens"),
    "total_tokens",
)
"""Columns of a model call that change while it goes on."""


def save_call(key: SessionKey, call: ModelCall, pieces: Sequence[Piece]) -> bool:
    """Create or update a model call, by its `ref`. Does nothing if its session does not exist.

    Args:
        key: the session's key.
        call: the call, without its session and number.
        pieces: the pieces that its request and response name.

    Returns False if only some of very many pieces were written; then call it again.
    """
    session_pk = _session_pk(key)
    if session_pk is None:
        return True
    if not _save_pieces(session_pk, pieces):
        return False
    stored = _rows(
        "SELECT id FROM sessions_app_modelcall WHERE session_id = %s AND ref = %s", (session_pk, call.ref)
    )
    if stored:
        values = {name: getattr(call, name) for name in UPDATED_COLUMNS}
        ModelCall.objects.filter(pk=stored[0][0]).update(**values)
        return True
    call.pk, call.session_id = None, session_pk  # a transaction that was rolled back may have set the key
    call.number = _last_number(session_pk, call.invocation_id) + 1
    call.save(force_insert=True)
    return True


def save_stages(
    key: SessionKey, invocation_id: str, stages: Sequence[Stage], trace_id: str, root_agent: str, ended: bool
) -> bool:
    """Append stages to the trace of an invocation."""
    session_pk = _session_pk(key)
    if session_pk is None or not stages:
        return True
    entries = [[stage.name, stage.at, scopes.clean_error(stage.of)] for stage in stages]
    finished_at = stages[-1].at if ended else None
    traces = _rows(
        "SELECT id, trace_id, stages FROM sessions_app_trace WHERE session_id = %s AND invocation_id = %s",
        (session_pk, invocation_id),
    )
    for pk, known_id, before in traces:
        earlier = json.loads(before)
        entries = [
            stage for stage in entries if stage not in earlier
        ]  # a retried write may be stored already
        _execute(
            "UPDATE sessions_app_trace SET stages = %s, trace_id = %s, finished_at = %s WHERE id = %s",
            (scopes.dumps((earlier + entries)[:MAX_STAGES]), trace_id or known_id, finished_at, pk),
        )
    if not traces:
        Trace.objects.create(
            session_id=session_pk,
            invocation_id=invocation_id,
            trace_id=trace_id,
            root_agent=scopes.clean_text(root_agent),
            started_at=stages[0].at,
            finished_at=finished_at,
            stages=scopes.dumps(entries[:MAX_STAGES]),
        )
    if ended:
        index_backlog.recheck(session_pk, invocation_id)
    change_notification.notify_after_commit()
    return True


def close_unfinished(at: float, **of: Any) -> None:
    """Close the unfinished traces, model calls and nested runs of invocations that have ended.

    Args:
        at: end time, in seconds since the epoch.
        of: conditions on columns that select the rows.
    """
    for trace in Trace.objects.filter(finished_at=None, **of).order_by("pk"):  # writers lock in one order
        end = max(at, trace.started_at)
        stages = [*trace.decoded_stages, [Trace.CUT_OFF, end, ""]]
        Trace.objects.filter(pk=trace.pk, finished_at=None).update(
            stages=scopes.dumps(stages[-MAX_STAGES:]), finished_at=end
        )
    ModelCall.objects.filter(finished_at=None, **of).update(finished_at=Greatest(Value(at), "started_at"))
    nested_records.close_unfinished(at, **of)


def save_span(key: SessionKey, span: Span) -> bool:
    """Write a finished span, given without its session, unless its session does not exist.

    A retried write may be stored already. Ids alone do not identify a span: an agent that seeds Python's random
    generator gets the same ids again.
    """
    session_pk = _session_pk(key)
    if session_pk is None:
        return True
    identity = (span.invocation_id, span.started_ns, span.ended_ns, span.trace_id, span.span_id)
    if not _rows(STORED_SPAN, (session_pk, *identity)):
        span.pk, span.session_id = None, session_pk
        span.save(force_insert=True)
    return True


STORED_SPAN = (
    "SELECT 1 FROM sessions_app_span WHERE session_id = %s AND invocation_id = %s AND started_ns = %s"
    " AND ended_ns = %s AND trace_id = %s AND span_id = %s"
)


def _session_pk(key: SessionKey) -> int | None:
    rows = _rows(
        "SELECT id FROM sessions_app_agentsession"
        " WHERE realm = %s AND app_name = %s AND user_id = %s AND session_id = %s",
        key,
    )
    return rows[0][0] if rows else None


def _last_number(session_pk: int, invocation_id: str) -> int:
    [(number,)] = _rows(
        "SELECT max(number) FROM sessions_app_modelcall WHERE session_id = %s AND invocation_id = %s",
        (session_pk, invocation_id),
    )
    return number or 0


def _rows(statement: str, parameters: Sequence[Any]) -> list[Any]:
    """Run a plain SQL statement: these run with every model call, and Django's ORM takes ten times as long."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def _execute(statement: str, parameters: Sequence[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def _save_pieces(session_pk: int, pieces: Iterable[Piece]) -> bool:
    """Store up to about `MAX_PIECES` missing pieces. Return whether all pieces are stored now."""
    missing = list(islice(_missing(session_pk, pieces), MAX_PIECES + 1))
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO sessions_app_modelpiece (session_id, sha, body) VALUES (%s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            [(session_pk, piece.sha, piece.text) for piece in missing],
        )
    return len(missing) <= MAX_PIECES


def _missing(session_pk: int, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the missing pieces, members before their list: a stored list has all its members."""
    by_name = {piece.sha: piece for piece in pieces}
    there = _stored_names(session_pk, list(by_name))
    for sha, piece in by_name.items():
        if sha not in there:
            yield from _missing(session_pk, piece.members)
            yield piece


def _stored_names(session_pk: int, names: Sequence[str]) -> set[str]:
    stored: set[str] = set()
    for start in range(0, len(names), PIECES_PER_QUERY):
        some = names[start : start + PIECES_PER_QUERY]
        marks = ", ".join(["%s"] * len(some))
        statement = f"SELECT sha FROM sessions_app_modelpiece WHERE session_id = %s AND sha IN ({marks})"  # noqa: S608 - placeholders
        stored.update(sha for (sha,) in _rows(statement, (session_pk, *some)))
    return stored
