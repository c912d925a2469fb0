"""SQL and values that store an event and update its session, for `sessions_app.store.sessions.writes`."""

from __future__ import annotations

from sessions_app.store.database.statements import bulk_insert_sql, insert_sql, unnest_sql
from sessions_app.store.events import EventRecord
from sessions_app.store.models import Event, Scope
from sessions_app.store.sessions.greetings import greeting_sql
from sessions_app.store.sessions.ledger import OwnerPositions

PREVIEW_LIMIT = 200

INSERT_EVENT, INSERT_EVENTS = insert_sql(Event), bulk_insert_sql(Event)
"""Insert a row of `event_row`, or many."""


def event_row(owners: OwnerPositions, seq: int, record: EventRecord) -> tuple[str | int | float | None, ...]:
    """Return the row of an event, the columns of `Event`, with the versions that its commit saw."""
    return (
        owners.ids[Scope.SESSION],
        seq,
        record.event_id,
        record.invocation_id,
        record.author,
        str(record.kind),
        record.timestamp,
        record.branch,
        owners.positions.get(Scope.APP, 0),
        owners.positions.get(Scope.USER, 0),
        record.is_final,
        record.total_tokens,
        record.summary,
        record.data,
        record.private,
    )


def _lacks_first_text(column: str) -> str:
    """Return the SQL condition that a session has no first text, or one that only greets."""
    return f"({column} = '' OR {greeting_sql(column)})"


ADVANCE_SESSION = (
    "UPDATE sessions_app_agentsession SET revision = revision + 1, last_seq = %s, updated_at = %s,"  # noqa: S608 - constants
    " error_count = error_count + %s, total_tokens = total_tokens + %s,"
    f" first_text = CASE WHEN {_lacks_first_text('first_text')}"
    " THEN coalesce(nullif(%s, ''), first_text) ELSE first_text END,"
    " last_text = coalesce(%s, last_text) WHERE id = %s"
)
"""Updates a session for an event: the values of `advance`."""

_ADVANCE_TYPES = ("bigint", "float8", "bigint", "bigint", "text", "text", "bigint")
ADVANCE_SESSIONS = (
    "UPDATE sessions_app_agentsession s SET revision = s.revision + 1, last_seq = n.seq, updated_at = n.updated_at,"  # noqa: S608 - our own table
    " error_count = s.error_count + n.errors, total_tokens = s.total_tokens + n.tokens,"
    f" first_text = CASE WHEN {_lacks_first_text('s.first_text')}"
    " THEN coalesce(nullif(n.first_text, ''), s.first_text) ELSE s.first_text END,"
    " last_text = coalesce(n.last_text, s.last_text)"
    f" FROM {unnest_sql(_ADVANCE_TYPES)} AS n(seq, updated_at, errors, tokens, first_text, last_text, id)"
    " WHERE s.id = n.id"
)
"""Updates many sessions for one event each."""


def advance(session_pk: int, seq: int, record: EventRecord) -> tuple[str | int | float | None, ...]:
    """Return the values that update the session's row for an event."""
    preview = " ".join(record.text.split())[:PREVIEW_LIMIT]
    first = preview if record.author == "user" else ""
    return (
        seq,
        record.timestamp,
        int(record.is_error),
        record.total_tokens,
        first,
        preview or None,
        session_pk,
    )
