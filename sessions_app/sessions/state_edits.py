"""Manual edits of one key of a session's state, each an appended event.

Pages and API share the same checks: no active run, no eval attempt, no `temp:` key, and the caller's expected state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from sessions_app.lookup import find_session
from sessions_app.sessions import storage_location
from sessions_app.store import scopes
from sessions_app.store.database.skip_scan import distinct_values
from sessions_app.store.errors import BadInput, NotFound, StaleKey, StaleSession
from sessions_app.store.models import AgentSession, AppScope, Scope, StateChange, UserScope
from sessions_app.store.realms import refuse_read_only
from sessions_app.store.runs import session_runs
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.writes import AppendResult
from sessions_app.store.state import history

COUNT_LIMIT = 1000
"""Maximum sessions, and users, counted; beyond it a page says "more than"."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The state that the caller expects.

    Attributes:
        revision: revision of the session; None: any.
        position: position of the last write of the key, 0 if it was never written; None: any.
    """

    revision: int | None = None
    position: int | None = None


ANY = Condition()


@dataclass(frozen=True, slots=True)
class StateEdit:
    """A completed edit: its event, its ledger row, and whether the key had a value before."""

    appended: AppendResult
    event_id: str
    change: StateChange
    had_value: bool


@dataclass(frozen=True, slots=True)
class KeyReaders:
    """Number of other sessions and users that read a key. Counts stop at `COUNT_LIMIT` + 1."""

    sessions: int
    users: int = 0

    @property
    def is_cut(self) -> bool:
        """Return whether there are more sessions than were counted."""
        return self.sessions > COUNT_LIMIT

    @property
    def users_cut(self) -> bool:
        """Return whether there are more users than were counted."""
        return self.users > COUNT_LIMIT


def put_key(
    session_pk: int, name: str, value: Any, condition: Condition = ANY, *, person: str = ""
) -> StateEdit:
    """Set the value of a key, named with its prefix. `person` is the name of the person who edits; empty: unknown.

    Raises:
        SessionMissing: the session does not exist.
        BadInput: the key cannot be stored, the value is not JSON, or the session is an eval attempt or is owned by
            another service.
        SessionBusy: the session has an active run.
        StaleSession, StaleKey: it has changed since the caller read it.
    """
    canonical = scopes.canonicalize(value, name)
    if canonical.note:
        raise BadInput(
            f"The value of {name!r} is not JSON ({canonical.note}).",
            hint="Send a JSON value without NaN, Infinity and lone surrogates, with at most"
            f" {scopes.MAX_DEPTH} levels and some 4,200 digits.",
        )
    return _edit_key(session_pk, name, condition, {name: value}, person)


def remove_key(session_pk: int, name: str, condition: Condition = ANY, *, person: str = "") -> StateEdit:
    """Remove a key. The event says null for it, as ADK's deltas cannot remove; the store has no value.

    Raises:
        NotFound: the key has no value. Also all errors of `put_key`.
    """
    return _edit_key(session_pk, name, condition, None, person)


def append_delta(session_pk: int, delta: dict[str, Any], *, person: str = "") -> None:
    """Change several keys by one event, as ADK's REST API does.

    Raises:
        SessionMissing, BadInput, SessionBusy: as in `put_key`.
    """
    with transaction.atomic():
        writes.edit_state(_lock_editable_session(session_pk), delta, person=person)


def parse_name(name: str) -> tuple[Scope, str]:
    """Return the scope and the bare key of a prefixed key.

    Raises:
        BadInput: it is a `temp:` key, or contains characters that cannot be stored.
    """
    if not scopes.is_clean(name):
        raise BadInput(
            f"The key {name[:80]!r} contains a NUL or a lone surrogate, which the store cannot hold.",
            hint="Use a key of valid Unicode text.",
        )
    try:
        return scopes.split_scope(name)
    except ValueError as error:
        raise BadInput(str(error), hint="Use a key of the session, `user:` or `app:` scope.") from error


def count_readers(session: AgentSession, scope: Scope) -> KeyReaders:
    """Count the other readers of a scope's keys. At most `COUNT_LIMIT` + 1 index entries of each kind are read."""
    if scope == Scope.SESSION:
        return KeyReaders(0)
    other_sessions = AgentSession.objects.filter(realm=session.realm, app_name=session.app_name)
    if scope == Scope.USER:
        other_sessions = other_sessions.filter(user_id=session.user_id)
        users = [session.user_id]
    else:
        users = distinct_values(
            AgentSession._meta.db_table,
            "user_id",
            {"realm": session.realm, "app_name": session.app_name},
            limit=COUNT_LIMIT + 1,
        )
    sessions = other_sessions.exclude(pk=session.pk).order_by()[: COUNT_LIMIT + 1].count()
    return KeyReaders(sessions, len(users))


def _edit_key(
    session_pk: int, name: str, condition: Condition, delta: dict[str, Any] | None, person: str
) -> StateEdit:
    scope, bare = parse_name(name)
    with transaction.atomic():
        session = _lock_editable_session(session_pk)
        had_value = _check_condition(session, scope, bare, name, condition)
        if delta is None and not had_value:
            raise NotFound(f"The key {name!r} has no value.", hint="There is nothing to remove.")
        removed = (name,) if delta is None else ()
        appended, record = writes.edit_state(session, delta or {}, removed=removed, person=person)
        change = StateChange.objects.defer("private").get(
            session=session, seq=appended.seq, scope=scope, key_id=scopes.key_id(bare)
        )
    return StateEdit(appended, record.event_id, change, had_value)


def _lock_editable_session(session_pk: int) -> AgentSession:
    session = find_session(session_pk, locked=True)
    refuse_read_only(session)
    storage_location.refuse_copy(session)
    session_runs.require_idle(session.pk, session.session_id)
    return session


def _check_condition(session: AgentSession, scope: Scope, bare: str, name: str, condition: Condition) -> bool:
    """Raise an error unless the condition holds. Return whether the key has a value."""
    if condition.revision is not None and condition.revision != session.revision:
        raise StaleSession(
            f"Session {session.session_id!r} has changed: its revision is {session.revision},"
            f" not {condition.revision}.",
            hint="Read the state again before you change it.",
        )
    _lock_owner(session, scope)
    last = history.change_at(session, None, scope, bare)
    position = last.position if last else 0
    has_value = last is not None and not last.removed
    if condition.position not in (None, position):
        raise StaleKey(
            f"The key {name!r} was written since you read it"
            + (f", at {scope} version {position}." if scope != Scope.SESSION else f", by event {position}."),
            hint="Read the key again before you change it.",
        )
    return has_value


def _lock_owner(session: AgentSession, scope: Scope) -> None:
    """Lock the row that every writer of a shared scope locks, so that the checked state cannot change."""
    if scope == Scope.SESSION:
        return
    owner = {"realm": session.realm, "app_name": session.app_name}
    if scope == Scope.USER:
        list(UserScope.objects.select_for_update().filter(**owner, user_id=session.user_id))
    else:
        list(AppScope.objects.select_for_update().filter(**owner))
