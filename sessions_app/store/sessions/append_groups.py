"""Group commit of appends to many sessions, on PostgreSQL.

Appends that write the same user's or app's state wait for each other until a commit is on disk, so single appends are
limited by the number of commits. A group locks each owner's row once, gives every append its own version, and commits
once.

A group contains only appends that are ready. Others (a stale copy, a stored event, a session that is missing or locked)
are executed singly by `writes.append_event`, which raises the error. So is every append of a group that the database
rejects. Sessions are locked without waiting, then the rows of users, then those of apps, each sorted: the lock order of
all writers, so groups of several processes never deadlock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import DatabaseError, connection, transaction

from sessions_app.store.database import change_notification, db_errors, statements, units_of_work
from sessions_app.store.database.statements import PostgresStatements, transpose, unnest_sql
from sessions_app.store.errors import DevUIError, StoreBusy
from sessions_app.store.events import EventRecord
from sessions_app.store.ids import is_storable
from sessions_app.store.models import ChangeCause, Scope
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import ledger, writes
from sessions_app.store.sessions.event_rows import (
    ADVANCE_SESSIONS,
    INSERT_EVENTS,
    advance,
    event_row,
)
from sessions_app.store.sessions.ledger import KeyRow, OwnerPositions, Provenance
from sessions_app.store.sessions.writes import ANY, AppendResult, ExpectedSession


class _Append(NamedTuple):
    """The arguments of `writes.append_event`."""

    key: SessionKey
    record: EventRecord
    expected: ExpectedSession | None
    cause: ChangeCause

    def execute(self) -> AppendResult:
        return writes.append_event(self.key, self.record, self.expected, cause=self.cause)


_Outcome = AppendResult | DevUIError | None
"""The result or error of an append; None: it was not executed and must be executed singly."""


async def append(
    key: SessionKey,
    record: EventRecord,
    expected: ExpectedSession | None = ANY,
    *,
    cause: ChangeCause = ChangeCause.APPEND,
) -> AppendResult:
    """Append an event from async code with `writes.append_event`, grouped with other waiting appends.

    Raises:
        SessionMissing, StaleSession, DuplicateEvent, BadInput: see `writes.append_event`.
        StoreFault: see `db_errors`. When the connection is lost, the append may have been stored.
    """
    request = _Append(key, record, expected, cause)
    if connection.vendor == "postgresql":
        outcome = await units_of_work.write_together(append_together, request)
        if isinstance(outcome, DevUIError):
            raise outcome
        if outcome is not None:
            return outcome
    return await units_of_work.write(request.execute)


def append_together(requests: list[_Append]) -> list[_Outcome]:
    """Execute appends, in a dedicated thread.

    Raises:
        DatabaseError: the store failed (see `db_errors`) for all of them.
    """
    statements.dedicate_connection_to_appends()
    try:
        return _append_in_one_transaction(requests) if len(requests) > 1 else [requests[0].execute()]
    except DevUIError as refusal:
        return [refusal] * len(requests)
    except DatabaseError as error:
        fault = db_errors.translate(error)
        if fault is not None and not isinstance(fault, StoreBusy):
            raise
        return [None] * len(requests)


class _ReadySession(NamedTuple):
    """A locked session that is ready for an append: its values before the append."""

    pk: int
    last_seq: int
    revision: int

    def result(self) -> AppendResult:
        return AppendResult(self.pk, self.last_seq + 1, self.revision + 1)


_LOCK_READY = (
    "SELECT n.number, s.id, s.last_seq, s.revision"  # noqa: S608 - our own tables
    f" FROM {unnest_sql(('text', 'text', 'text', 'text', 'bigint', 'text', 'bigint'))}"
    " AS n(realm, app_name, user_id, session_id, revision, event_id, number)"
    " JOIN sessions_app_agentsession s ON s.realm = n.realm AND s.app_name = n.app_name"
    " AND s.user_id = n.user_id AND s.session_id = n.session_id"
    " WHERE s.revision = n.revision AND NOT EXISTS"
    " (SELECT FROM sessions_app_event e WHERE e.session_id = s.id AND e.event_id = n.event_id)"
    " FOR UPDATE OF s SKIP LOCKED"
)


def _append_in_one_transaction(requests: Sequence[_Append]) -> list[_Outcome]:
    with transaction.atomic(), statements.open_postgres_statements() as cursor:
        positions = _lock_ready_sessions(cursor, requests)
        if positions:
            _write_rows(cursor, [(requests[number], position) for number, position in positions.items()])
            change_notification.notify_after_commit()
    return [positions[number].result() if number in positions else None for number in range(len(requests))]


def _lock_ready_sessions(cursor: PostgresStatements, requests: Sequence[_Append]) -> dict[int, _ReadySession]:
    """Lock the sessions that match their appends' expectation, and return them by append number.

    Of several appends to one session the first is returned: it makes the others stale.
    """
    expectations = [
        (*request.key, request.expected.revision, request.record.event_id, number)
        for number, request in enumerate(requests)
        if request.expected and request.expected.revision is not None and is_storable(*request.key)
    ]
    if not expectations:
        return {}
    [rows] = cursor.all_rows((_LOCK_READY, transpose(expectations)))
    first: dict[int, tuple[int, _ReadySession]] = {}
    for number, *position in sorted(rows):
        first.setdefault(position[0], (number, _ReadySession(*position)))
    return dict(first.values())


def _write_rows(cursor: PostgresStatements, appends: Sequence[tuple[_Append, _ReadySession]]) -> None:
    owners = _Owners(cursor, [request for request, _ in appends])
    events, sessions, temp = [], [], []
    keys = {scope: _Keys() for scope in Scope}
    changes = []
    for request, position in appends:
        seq, record = position.last_seq + 1, request.record
        positions = owners.take(request, position.pk, seq)
        provenance = Provenance.of(request.key, position.pk, seq, record, request.cause)
        sessions.append(advance(position.pk, seq, record))
        events.append(event_row(positions, seq, record))
        temp += ledger.temp_rows(record.temp, provenance)
        for write in record.writes:
            row = ledger.state_row(write, positions)
            keys[write.scope].note(row, removed=write.removed)
            changes.append(ledger.change_row(write, row, provenance))
    cursor.execute(ADVANCE_SESSIONS, transpose(sessions))
    cursor.execute(INSERT_EVENTS, transpose(events))
    for scope, keys_of_scope in keys.items():
        if keys_of_scope.removed:
            cursor.execute(ledger.REMOVE_KEYS[scope], transpose(keys_of_scope.removed))
        if keys_of_scope.written:
            cursor.execute(ledger.UPSERT_KEYS[scope], transpose(keys_of_scope.written.values()))
    if changes:
        cursor.execute(ledger.INSERT_CHANGES, transpose(changes))
    if temp:
        cursor.execute(ledger.INSERT_TEMPS, transpose(temp))


class _Keys:
    """The combined key writes of a group in one scope: each key is written once."""

    def __init__(self) -> None:
        self.removed: dict[tuple[int, str], None] = {}
        self.written: dict[tuple[int, str], KeyRow] = {}

    def note(self, row: KeyRow, *, removed: bool) -> None:
        """Add a later write. A key that is removed and written again is a new row, as with single appends."""
        name = (row.owner_id, row.key_id)
        if removed:
            self.removed[name] = None
            self.written.pop(name, None)
        else:
            self.written[name] = row


_OwnerName = tuple[Scope, tuple[str, ...]]
"""The scope and the naming columns of a user or an app."""


class _Owners:
    """The users and apps of a group's sessions; those that are written are locked, and created if missing."""

    def __init__(self, cursor: PostgresStatements, requests: Sequence[_Append]) -> None:
        write_counts = Counter(owner for request in requests for owner in _written_owners(request))
        unread_owners = {
            owner for request in requests for owner in _shared_owners(request)
        } - write_counts.keys()
        queries: list[tuple[Scope, str, Sequence[Sequence[Any]]]] = []
        for scope in ledger.SHARED:  # all users, then all apps
            if names_and_versions := sorted(
                (*name, times) for (kind, name), times in write_counts.items() if kind is scope
            ):
                queries.append((scope, ledger.TAKE_OWNERS[scope], names_and_versions))
        for scope in ledger.SHARED:
            if names_and_versions := [name for kind, name in unread_owners if kind is scope]:
                queries.append((scope, ledger.FIND_OWNERS[scope], names_and_versions))
        results = cursor.all_rows(*((sql, transpose(names)) for _, sql, names in queries))
        self._versions: dict[_OwnerName, tuple[int, int]] = {}
        for (scope, _, _), rows in zip(queries, results, strict=True):
            for pk, version, *name in rows:
                owner = (scope, tuple(name))
                self._versions[owner] = (pk, version - write_counts[owner])

    def take(self, request: _Append, session_pk: int, seq: int) -> OwnerPositions:
        """Return the owners of an append: at the next version if written, else at the current one."""
        for owner in _written_owners(request):
            pk, version = self._versions[owner]
            self._versions[owner] = (pk, version + 1)
        ids, positions = {Scope.SESSION: session_pk}, {Scope.SESSION: seq}
        for owner in _shared_owners(request):
            if owner in self._versions:
                ids[owner[0]], positions[owner[0]] = self._versions[owner]
        return OwnerPositions(ids, positions)


def _shared_owners(request: _Append) -> list[_OwnerName]:
    return [(scope, tuple(request.key[: len(names)])) for scope, names in ledger.SHARED.items()]


def _written_owners(request: _Append) -> list[_OwnerName]:
    scopes_written = {write.scope for write in request.record.writes}
    return [owner for owner in _shared_owners(request) if owner[0] in scopes_written]
