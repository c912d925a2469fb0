"""Terms about state: keys and their values, current or ever."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from sessions_app.search.execution.scans import UnindexedTail
from sessions_app.search.execution.session_sets import (
    FEW,
    SessionSet,
    keys_statement,
    keys_subquery,
    membership_condition,
)
from sessions_app.search.query.terms import StateTerm, When
from sessions_app.search.state_conditions import is_decided_by_marks, mark_condition, value_condition
from sessions_app.store import scopes
from sessions_app.store.models import (
    STATE_ROWS,
    AgentSession,
    AppScope,
    Scope,
    StateChange,
    StateValue,
    UserScope,
)

OWNERS: dict[Scope, QuerySet[Any]] = {
    Scope.USER: UserScope.objects.all(),
    Scope.APP: AppScope.objects.all(),
}

_IDENTITY = {Scope.USER: ("realm", "app_name", "user_id"), Scope.APP: ("realm", "app_name")}


def outer_session_owner(scope: Scope) -> QuerySet[Any]:
    """Return a subquery of the user or app of an outer query's session."""
    return OWNERS[scope].filter(**{name: OuterRef(name) for name in _IDENTITY[scope]})


def owner_keys(session: AgentSession, scope: Scope) -> Any:
    """Return the primary keys of a session's owner of a scope."""
    if scope is Scope.SESSION:
        return [session.pk]
    return OWNERS[scope].filter(**{name: getattr(session, name) for name in _IDENTITY[scope]}).values("pk")


def find_reading_sessions(scope: Scope, owners: Iterable[int]) -> list[int]:
    """Return the sessions of users or apps, at most `FEW` + 1. The cross join makes SQLite begin with the owners."""
    keys, table = keys_statement(owners), OWNERS[scope].model._meta.db_table
    same = " AND ".join(f"s.{name} = o.{name}" for name in _IDENTITY[scope])
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.id FROM {table} o CROSS JOIN {AgentSession._meta.db_table} s"  # noqa: S608 - our own tables
            f" WHERE o.id IN ({keys.sql}) AND {same} LIMIT %s",
            [*keys.params, FEW + 1],
        )
        return [pk for (pk,) in cursor.fetchall()]


def written_key_term(name: str) -> StateTerm:
    """Return the term `KEY ever`."""
    try:
        scope, key = scopes.split_scope(name)
    except ValueError:
        scope, key = Scope.SESSION, name
    return StateTerm(scope, key, when=When.EVER)


def find_by_state(term: StateTerm, tail: UnindexedTail) -> SessionSet:
    """Return the sessions whose state matches a term, ignoring its negation.

    `missing` and `never` are the complements of a current value and of any value ever.
    """
    is_now = term.when in (When.NOW, When.MISSING)
    matches = _find_sessions(replace(term, when=When.NOW) if is_now else term, tail, is_now=is_now)
    return membership_condition(matches, negated=True) if term.when in (When.MISSING, When.NEVER) else matches


def _find_sessions(term: StateTerm, tail: UnindexedTail, *, is_now: bool) -> SessionSet:
    """Return the sessions that read a matching value now, or ever did.

    Those that read it now are searched among those that ever did, if an index lists them.
    """
    test = _holds_now(term) if is_now else _was_written(term)
    owners = _owners_ever(term, tail)
    if owners is None:
        return test
    if is_now:
        rows = current_rows(term).filter(owner__in=keys_subquery(owners))
        owners = set(rows.values_list("owner", flat=True))
    if term.scope is Scope.SESSION or not owners:
        return owners
    pks = find_reading_sessions(term.scope, owners)
    return set(pks) if len(pks) <= FEW else test


def _compares_value(term: StateTerm) -> bool:
    """Return whether a term compares the key's value, instead of asking for the key alone."""
    return bool(term.op or term.path)


def _holds_now(term: StateTerm) -> Q:
    """Return the condition that the value which the session reads now matches the term."""
    rows = current_rows(term)
    if term.scope is Scope.SESSION:
        return Q(Exists(rows.filter(owner=OuterRef("pk"))))
    return Q(Exists(outer_session_owner(term.scope).filter(Exists(rows.filter(owner=OuterRef("pk"))))))


def current_rows(term: StateTerm) -> QuerySet[Any]:
    """Return the current state rows that match a term. For a whole key no value is read."""
    rows = STATE_ROWS[term.scope]._default_manager.filter(key_id=scopes.key_id(term.key))
    return rows.filter(value_condition(term)) if _compares_value(term) else rows


def _was_written(term: StateTerm) -> Q:
    """Return the condition that a matching value was ever written."""
    rows = _ledger_rows(term).filter(owner_id=OuterRef("pk"))
    if term.scope is Scope.SESSION:
        return Q(Exists(rows))
    return Q(Exists(outer_session_owner(term.scope).filter(Exists(rows))))


def _ledger_rows(term: StateTerm) -> QuerySet[StateChange]:
    """Return the ledger rows that match a term. A key was written if it has any row: no row itself is read."""
    rows = StateChange.objects.filter(scope=term.scope, key_id=scopes.key_id(term.key))
    return rows.filter(value_condition(term), removed=False) if _compares_value(term) else rows


def _owners_ever(term: StateTerm, tail: UnindexedTail) -> set[int] | None:
    """Return the owners whose key ever had a matching value; None if the index cannot decide or they are too many.

    For a term about the current value it suffices that they may have had it.
    """
    if not tail.has_all:
        return None
    values = StateValue.objects.filter(mark_condition(term), scope=term.scope, key_id=scopes.key_id(term.key))
    owner_ids = list(values.values_list("owner_id", flat=True)[: FEW + 1])
    if len(owner_ids) > FEW:
        return None
    owners = set(owner_ids)
    if term.when is not When.NOW and not is_decided_by_marks(term):
        changes = _ledger_rows(term).filter(owner_id__in=keys_subquery(owners))
        owners = set(changes.values_list("owner_id", flat=True))
    return owners | tail.owners(term)
