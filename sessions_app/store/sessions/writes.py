"""The write service: all changes to sessions, events and state.

Every function is one synchronous transaction. Rows are locked in one order (session, user, app, keys sorted), so
appends never deadlock. The hot path is plain SQL, which takes less than half the time of the ORM.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import IntegrityError, connection, transaction

from sessions_app.store import events, scopes
from sessions_app.store.database import change_notification, statements
from sessions_app.store.database.statements import Statements
from sessions_app.store.errors import AlreadyExists, DuplicateEvent, SessionMissing, StaleSession
from sessions_app.store.events import EventRecord, StateWrite
from sessions_app.store.events.attribution import Writer
from sessions_app.store.ids import check_event_ids, is_storable
from sessions_app.store.index import index_entries
from sessions_app.store.models import (
    AgentSession,
    AppScope,
    ChangeCause,
    Scope,
    StateChange,
    UntrackedKey,
    UserScope,
)
from sessions_app.store.session_key import SessionKey, StorableKey
from sessions_app.store.sessions.event_rows import ADVANCE_SESSION, INSERT_EVENT, advance, event_row
from sessions_app.store.sessions.ledger import Provenance, insert_temp, take_owners, write_keys


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The result of an append. `duplicate`: an equal event was already stored, and nothing was written."""

    session_pk: int
    seq: int
    revision: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class ExpectedSession:
    """The stored session as the caller expects it: its revision or, if unknown, the id of its last event.

    With neither (a hand-built copy without events) only a session without events matches.
    """

    revision: int | None = None
    last_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class UntrackedWrite:
    """A prefixed key that an agent changed without an event.

    `value` is None if the key was removed; `stored` is the JSON text that events had stored, None if there was none.
    """

    name: str
    value: scopes.CanonicalValue | None
    stored: str | None


ANY: ExpectedSession | None = None
"""Append without a check: for writers that read the session in the same transaction."""


def create_session(
    key: StorableKey,
    initial: Mapping[str, Any] | None = None,
    *,
    origin: str = "live",
    title: str = "",
    cause: ChangeCause = ChangeCause.SEED,
    now: float | None = None,
) -> AgentSession:
    """Create a session and seed its state: `app:` and `user:` keys go to their scope, `temp:` is dropped.

    Raises:
        AlreadyExists: the app and user have a session of this id.
    """
    created_at = time.time() if now is None else now
    writes = [
        StateWrite(scope, name, value, Writer("seed", inferred=False))
        for scope, name, value in scopes.split_delta(initial or {}).canonical_values()
    ]
    with transaction.atomic():
        session = AgentSession(
            **key._asdict(), created_at=created_at, updated_at=created_at, origin=origin, title=title
        )
        try:
            with transaction.atomic():
                session.save(force_insert=True)
        except IntegrityError as error:
            raise AlreadyExists(
                f"Session already exists: {key.session_id}",
                hint="Leave out the id to get a new one, or delete the session first.",
            ) from error
        with statements.open_statements() as cursor:
            provenance = Provenance(key, session.pk, 0, created_at, cause)
            owners = take_owners(cursor, key, session.pk, writes, position=0)
            write_keys(cursor, owners, writes, provenance)
        change_notification.notify_after_commit()
    return session


def append_event(
    session: SessionKey | AgentSession,
    record: EventRecord,
    expected: ExpectedSession | None = ANY,
    *,
    cause: ChangeCause = ChangeCause.APPEND,
) -> AppendResult:
    """Append an event and apply its state delta atomically.

    An equal event that is already stored is ignored (`AppendResult.duplicate`).

    Args:
        session: the session's key, or its row if the caller has locked it in this transaction.

    Raises:
        SessionMissing: the session does not exist.
        StaleSession: the session has changed since the caller's copy was read.
        DuplicateEvent: the session has another event of this id.
        BadInput: the event's or the invocation's id is longer than `ID_BYTES` or cannot be stored.
    """
    check_event_ids(record.event_id, record.invocation_id)
    with transaction.atomic(), statements.open_statements() as cursor:
        key = session.key if isinstance(session, AgentSession) else session
        locked = _lock_session(cursor, session, record.event_id)
        if duplicate := locked.stored_event and _check_same_body(locked.stored_event, record):
            return AppendResult(locked.pk, duplicate, locked.revision, duplicate=True)
        if expected is not None:
            _check_current(cursor, key, locked, expected)
        seq = locked.last_seq + 1
        provenance = Provenance.of(key, locked.pk, seq, record, cause)
        cursor.execute(ADVANCE_SESSION, advance(locked.pk, seq, record))
        owners = take_owners(cursor, key, locked.pk, record.writes, position=seq)
        cursor.execute(INSERT_EVENT, event_row(owners, seq, record))
        write_keys(cursor, owners, record.writes, provenance)
        insert_temp(cursor, record.temp, provenance)
        change_notification.notify_after_commit()
    return AppendResult(locked.pk, seq, locked.revision + 1)


def edit_state(
    session: SessionKey | AgentSession,
    delta: Mapping[str, Any],
    *,
    removed: Collection[str] = (),
    person: str = "",
) -> tuple[AppendResult, EventRecord]:
    """Edit state manually: append an event with the delta, as ADK's PATCH of a session does (`append_event`).

    `removed` names keys, with their prefixes, to take out of the state. ADK's deltas cannot remove a key: the
    event says None for it, the store keeps no value. `person` is the name of the person who edits; empty: unknown.

    Raises:
        SessionMissing: the session does not exist.
    """
    change = {**delta, **dict.fromkeys(removed)}
    event = {
        "invocationId": f"p-{uuid.uuid4()}",
        "author": "user",
        "actions": {"artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}},
        "nodeInfo": {"path": ""},
        "id": str(uuid.uuid4()),
        "timestamp": time.time(),
    }
    writers = dict.fromkeys(change, Writer("user", person, inferred=False))
    edited = events.mark_removed(
        events.build_record(event, delta=change, writers=writers, person=person), removed
    )
    return append_event(session, edited, cause=ChangeCause.EDIT), edited


def note_untracked(key: SessionKey, invocation_id: str, keys: Collection[UntrackedWrite]) -> None:
    """Record the keys that an invocation changed without an event. State, events and revision do not change.

    Nothing is recorded for a session that was deleted meanwhile.
    """
    with transaction.atomic():
        session = AgentSession.objects.filter(**key._asdict()).only("pk", "last_seq").first()
        if session is None:
            return
        UntrackedKey.objects.bulk_create(_untracked_row(session, invocation_id, change) for change in keys)
        change_notification.notify_after_commit()


def _untracked_row(session: AgentSession, invocation_id: str, change: UntrackedWrite) -> UntrackedKey:
    scope, bare = scopes.split_scope(change.name)
    stored = None if change.stored is None else scopes.canonicalize(json.loads(change.stored), bare).public
    return UntrackedKey(
        session=session,
        seq=session.last_seq,
        invocation_id=invocation_id,
        scope=scope,
        key=bare,
        value=change.value.public if change.value else None,
        stored=stored,
        note=change.value.note if change.value else "",
        noticed_at=time.time(),
    )


def rename_session(session_pk: int, title: str, person: str = "") -> None:
    """Set a session's title and the person who sets it. The agent's state and the revision do not change."""
    with transaction.atomic():
        AgentSession.objects.filter(pk=session_pk).update(title=scopes.clean_text(title), title_person=person)
        change_notification.notify_after_commit()


def delete_session(session: SessionKey | AgentSession) -> bool:
    """Delete a session with its events, its own state and its nested sessions. Return whether it existed.

    User and app state remain.

    `session`: as for `append_event`.
    """
    if not is_storable(*(session.key if isinstance(session, AgentSession) else session)):
        return False
    with transaction.atomic():
        row = session if isinstance(session, AgentSession) else _lock_row(session)
        if row is None:
            return False
        for nested in AgentSession.objects.filter(nested_run__outer=row.pk).only("pk", "realm"):
            _delete_rows(nested)
            _delete_owners(nested.realm)
        _delete_rows(row)
        change_notification.notify_after_commit()
    return True


def _delete_rows(session: AgentSession) -> None:
    StateChange.objects.filter(scope=Scope.SESSION, owner_id=session.pk).delete()
    index_entries.forget_session(session.pk)
    session.delete()


def _delete_owners(realm: str) -> None:
    """Delete the user and app state of an isolated realm."""
    for scope, table in ((Scope.USER, UserScope), (Scope.APP, AppScope)):
        for owner in table._default_manager.filter(realm=realm):
            StateChange.objects.filter(scope=scope, owner_id=owner.pk).delete()
            index_entries.forget_owner(scope, owner.pk)
            owner.delete()


def _lock_row(key: SessionKey) -> AgentSession | None:
    return AgentSession.objects.select_for_update().filter(**key._asdict()).only("pk").first()


_FIND_SESSION = (
    "SELECT id, revision, last_seq FROM sessions_app_agentsession"
    " WHERE realm = %s AND app_name = %s AND user_id = %s AND session_id = %s"
)
_FIND_EVENT = (
    "SELECT seq, coalesce(private, data) FROM sessions_app_event WHERE session_id ="
    " (SELECT id FROM sessions_app_agentsession"
    " WHERE realm = %s AND app_name = %s AND user_id = %s AND session_id = %s) AND event_id = %s"
)
_FIND_EVENT_OF_ROW = (
    "SELECT seq, coalesce(private, data) FROM sessions_app_event WHERE session_id = %s AND event_id = %s"
)
_LOCK_SESSION = {"sqlite": _FIND_SESSION, "postgresql": f"{_FIND_SESSION} FOR UPDATE"}


class _LockedSession(NamedTuple):
    """A locked session, and its event of a given id as (seq, body)."""

    pk: int
    revision: int
    last_seq: int
    stored_event: tuple[int, str] | None


def _lock_session(cursor: Statements, session: SessionKey | AgentSession, event_id: str) -> _LockedSession:
    """Lock a session and look up an event in it. On SQLite the transaction already holds the write lock.

    The second statement sees commits made while the first waited for the lock.
    """
    if isinstance(session, AgentSession):
        cursor.execute(_FIND_EVENT_OF_ROW, (session.pk, event_id))
        return _LockedSession(session.pk, session.revision, session.last_seq, cursor.fetchone())
    key, row, stored_event = session, None, None
    if is_storable(*key):
        row, stored_event = cursor.first_rows(
            (_LOCK_SESSION[connection.vendor], key), (_FIND_EVENT, (*key, event_id))
        )
    if row is None:
        raise SessionMissing(
            f"Session not found: {key.session_id}",
            hint=f"App {key.app_name!r} and user {key.user_id!r} have no session of this id; create it first.",
        )
    return _LockedSession(row[0], row[1], row[2], stored_event)


def _check_same_body(stored_event: tuple[int, str], record: EventRecord) -> int:
    """Return the seq of the stored event, which must have the same body.

    Raises:
        DuplicateEvent: it has another body.
    """
    seq, body = stored_event
    if body != (record.private or record.data):
        raise DuplicateEvent(
            f"Event {record.event_id!r} is already stored in this session with another body.",
            hint="Give every event a unique id.",
        )
    return seq


def _check_current(
    cursor: Statements, key: SessionKey, session: _LockedSession, expected: ExpectedSession
) -> None:
    """Refuse an append by an outdated copy of the session.

    Raises:
        StaleSession: the session has changed.
    """
    if expected.revision is not None:
        current = expected.revision == session.revision
    elif expected.last_event_id is None:
        current = session.last_seq == 0
    else:
        cursor.execute(
            "SELECT event_id FROM sessions_app_event WHERE session_id = %s AND seq = %s",
            [session.pk, session.last_seq],
        )
        row = cursor.fetchone()
        current = row is not None and row[0] == expected.last_event_id
    if not current:
        raise StaleSession(
            f"The copy of session {key.session_id!r} is stale: the stored session has changed.",
            hint="Read the session again and append to the new copy.",
        )
