"""Writes of recorded model calls with their pieces, spans and stages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from django.db.models import Model, Value
from django.db.models.functions import Greatest

from sessions_app.store import scopes
from sessions_app.store.database import change_notification
from sessions_app.store.database.statements import (
    FIND_SESSION,
    Statements,
    insert_sql,
    open_statements,
)
from sessions_app.store.index import index_backlog
from sessions_app.store.models import HAS_NO_RUN, ModelCall, ModelPiece, NestedRun, Run, Span, Trace
from sessions_app.store.session_key import SessionKey
from sessions_app.store.traces.content_store import Piece

MAX_ERROR = 10_000
MAX_STAGES = 1_000
"""Maximum number of stored stages of an invocation."""

PIECES_PER_QUERY = 400
"""Pieces looked up per query."""

MAX_PIECES = 500
"""Pieces stored per transaction, since appends may wait for it."""


@dataclass(frozen=True, slots=True)
class StageRecord:
    """A stage that an invocation reached: name, time, and agent or tool. The last one ends the invocation."""

    name: str
    at: float
    of: str = ""
    is_last: bool = False


UPDATED_COLUMNS = (
    *("first_at", "finished_at", "request", "response", "chunks", "event_id", "event_ids", "by_callback"),
    *("model", "error_type", "error", "prompt_tokens", "output_tokens", "thought_tokens", "cached_tokens"),
    "total_tokens",
)
"""Columns of a model call that change while it goes on."""

ENDED_STATUS = {Trace.FAILED: Run.Status.FAILED, Trace.CUT_OFF: Run.Status.CANCELLED}
"""Status of an invocation without a run, by its last stage; others are done."""

_FIND_CALL = "SELECT id FROM sessions_app_modelcall WHERE session_id = %s AND ref = %s"
_LAST_NUMBER = "SELECT max(number) FROM sessions_app_modelcall WHERE session_id = %s AND invocation_id = %s"
_NEW_VALUES = ", ".join(f"{name} = %s" for name in UPDATED_COLUMNS)
_UPDATE_CALL = f"UPDATE sessions_app_modelcall SET {_NEW_VALUES} WHERE id = %s"  # noqa: S608 - our own columns
_FIND_TRACE = (
    "SELECT id, trace_id, stages FROM sessions_app_trace WHERE session_id = %s AND invocation_id = %s"
)
_FIND_RUN = "SELECT 1 FROM sessions_app_run WHERE session_id = %s AND invocation_id = %s"
_UPDATE_TRACE = (
    "UPDATE sessions_app_trace SET stages = %s, trace_id = %s, finished_at = %s,"
    " own_status = CASE WHEN own_status = '' THEN '' ELSE %s END WHERE id = %s"
)
_FIND_SPAN = (
    "SELECT 1 FROM sessions_app_span WHERE session_id = %s AND invocation_id = %s AND started_ns = %s"
    " AND ended_ns = %s AND trace_id = %s AND span_id = %s"
)
_INSERT_PIECE = f"{insert_sql(ModelPiece)} ON CONFLICT DO NOTHING"


def save_call(key: SessionKey, call: ModelCall, pieces: Sequence[Piece]) -> bool:
    """Create or update a model call, by its `ref`. Does nothing if its session does not exist.

    Args:
        key: the session's key.
        call: the call, without its session and number.
        pieces: the pieces that its request and response name.

    Returns False if only some of very many pieces were written; then call it again.
    """
    with open_statements() as cursor:
        session_pk = _find_session(cursor, key)
        if session_pk is None:
            return True
        if not _save_pieces(cursor, session_pk, pieces):
            return False
        [stored, last] = cursor.first_rows(
            (_FIND_CALL, (session_pk, call.ref)), (_LAST_NUMBER, (session_pk, call.invocation_id))
        )
        if stored:
            cursor.execute(_UPDATE_CALL, (*(getattr(call, name) for name in UPDATED_COLUMNS), stored[0]))
        else:
            call.session_id, call.number = session_pk, (last[0] or 0) + 1
            _insert_row(cursor, call)
    return True


def save_stages(
    key: SessionKey, invocation_id: str, stages: Sequence[StageRecord], trace_id: str, root_agent: str
) -> bool:
    """Append stages to the trace of an invocation."""
    if not stages:
        return True
    entries = [[stage.name, stage.at, scopes.clean_error(stage.of)] for stage in stages]
    finished_at = stages[-1].at if stages[-1].is_last else None
    status = _invocation_status(stages[-1])
    with open_statements() as cursor:
        session_pk = _find_session(cursor, key)
        if session_pk is None:
            return True
        [trace] = cursor.first_rows((_FIND_TRACE, (session_pk, invocation_id)))
        if trace:
            pk, known_id, stored = trace
            before = json.loads(stored)
            # a retried write may be stored already
            entries = before + [stage for stage in entries if stage not in before]
            values = (scopes.dumps(entries[:MAX_STAGES]), trace_id or known_id, finished_at, status, pk)
            cursor.execute(_UPDATE_TRACE, values)
        else:
            identity = session_pk, invocation_id
            is_listed = not key.realm and cursor.first_rows((_FIND_RUN, identity)) == [None]
            trace = Trace(
                session_id=session_pk,
                invocation_id=invocation_id,
                trace_id=trace_id,
                root_agent=scopes.clean_text(root_agent),
                started_at=stages[0].at,
                finished_at=finished_at,
                stages=scopes.dumps(entries[:MAX_STAGES]),
                counted_until=0.0,
                own_status=status if is_listed else "",
            )
            _insert_row(cursor, trace)
    if finished_at is not None:
        index_backlog.recheck(session_pk, invocation_id)
    change_notification.notify_after_commit()
    return True


def _invocation_status(last_stage: StageRecord) -> str:
    """Return the status of an invocation by the last of its stages."""
    return ENDED_STATUS.get(last_stage.name, Run.Status.DONE) if last_stage.is_last else Run.Status.RUNNING


def note_run(session_pk: int, invocation_id: str) -> None:
    """Note that an invocation has a run: the list of runs does not show its trace beside it."""
    Trace.objects.filter(HAS_NO_RUN, session=session_pk, invocation_id=invocation_id).update(own_status="")


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
    of_outer = {name.replace("session", "outer", 1): value for name, value in of.items()}
    unfinished = NestedRun.objects.filter(finished_at=None, **of_outer)
    unfinished.update(finished_at=at, changed_at=at, error=NestedRun.CUT_OFF)


def save_span(key: SessionKey, span: Span) -> bool:
    """Write a finished span, given without its session, unless its session does not exist.

    A retried write may be stored already. Ids alone do not identify a span: an agent that seeds Python's random
    generator gets the same ids again.
    """
    with open_statements() as cursor:
        session_pk = _find_session(cursor, key)
        if session_pk is None:
            return True
        identity = (span.invocation_id, span.started_ns, span.ended_ns, span.trace_id, span.span_id)
        if cursor.first_rows((_FIND_SPAN, (session_pk, *identity))) == [None]:
            span.session_id = session_pk
            _insert_row(cursor, span)
    return True


def _find_session(cursor: Statements, key: SessionKey) -> int | None:
    [row] = cursor.first_rows((FIND_SESSION, key))
    return row[0] if row else None


def _insert_row(cursor: Statements, row: ModelCall | Trace | Span) -> None:
    """Insert a row with plain SQL, because it is written with every model call."""
    statement, names = _insert_statement(type(row))
    cursor.execute(statement, [getattr(row, name) for name in names])


@cache
def _insert_statement(model: type[Model]) -> tuple[str, list[str]]:
    """Return the INSERT statement of a table and the attributes with its values."""
    names = [field.attname for field in model._meta.concrete_fields if not field.primary_key]
    return insert_sql(model), names


def _save_pieces(cursor: Statements, session_pk: int, pieces: Iterable[Piece]) -> bool:
    """Store up to about `MAX_PIECES` missing pieces. Return whether all pieces are stored now."""
    missing = list(islice(_missing_pieces(cursor, session_pk, pieces), MAX_PIECES + 1))
    cursor.executemany(_INSERT_PIECE, [(session_pk, piece.sha, piece.text) for piece in missing])
    return len(missing) <= MAX_PIECES


def _missing_pieces(cursor: Statements, session_pk: int, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the missing pieces, members before their list: a stored list has all its members."""
    by_name = {piece.sha: piece for piece in pieces}
    stored_names = _stored_names(cursor, session_pk, list(by_name))
    for sha, piece in by_name.items():
        if sha not in stored_names:
            yield from _missing_pieces(cursor, session_pk, piece.members)
            yield piece


def _stored_names(cursor: Statements, session_pk: int, names: Sequence[str]) -> set[str]:
    stored: set[str] = set()
    for start in range(0, len(names), PIECES_PER_QUERY):
        batch = names[start : start + PIECES_PER_QUERY]
        marks = ", ".join(["%s"] * len(batch))
        statement = f"SELECT sha FROM sessions_app_modelpiece WHERE session_id = %s AND sha IN ({marks})"  # noqa: S608 - placeholders
        cursor.execute(statement, (session_pk, *batch))
        stored.update(sha for (sha,) in cursor.fetchall())
    return stored
