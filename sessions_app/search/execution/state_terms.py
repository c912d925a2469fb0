"""Terms about state: keys and their values, current or ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from sessions_app.search.execution.session_sets import FEW, SessionSet, condition_of, keys_subquery
from sessions_app.search.execution.state_owners import find_sessions_of, owner_of_outer_session
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query.terms import StateTerm, When
from sessions_app.search.state_conditions import is_decided_by_marks, mark_condition, value_condition
from sessions_app.store import scopes
from sessions_app.store.models import STATE_ROWS, Scope, StateChange, StateValue


def written_key_term(name: str) -> StateTerm:
    """Return the term `KEY ever`."""
    try:
        scope, key = scopes.scope_of(name)
    except ValueError:
        scope, key = Scope.SESSION, name
    return StateTerm(scope, key, when=When.EVER)


def find_by_state(term: StateTerm, tail: UnindexedTail) -> SessionSet:
    """Return the sessions whose state matches a term, ignoring its negation.

    `missing` and `never` are the complements of a current value and of any value ever.
    """
    is_now = term.when in (When.NOW, When.MISSING)
    matches = _find_sessions(replace(term, when=When.NOW) if is_now else term, tail, is_now=is_now)
    return condition_of(matches, negated=True) if term.when in (When.MISSING, When.NEVER) else matches


def _find_sessions(term: StateTerm, tail: UnindexedTail, *, is_now: bool) -> SessionSet:
    """Return the sessions that read a matching value now, or ever did.

    Those that read it now are searched among those that ever did, if an index lists them.
    """
    test = _holds_now(term) if is_now else _was_written(term)
    owners = _owners_ever(term, tail)
    if owners is None:
        return test
    if is_now:
        rows = _current_rows(term).filter(owner__in=keys_subquery(owners))
        owners = set(rows.values_list("owner", flat=True))
    if term.scope is Scope.SESSION or not owners:
        return owners
    pks = find_sessions_of(term.scope, owners)
    return set(pks) if len(pks) <= FEW else test


def _compares_value(term: StateTerm) -> bool:
    """Return whether a term compares the key's value, instead of asking for the key alone."""
    return bool(term.op or term.path)


def _holds_now(term: StateTerm) -> Q:
    """Return the condition that the value which the session reads now matches the term."""
    rows = _current_rows(term)
    if term.scope is Scope.SESSION:
        return Q(Exists(rows.filter(owner=OuterRef("pk"))))
    return Q(Exists(owner_of_outer_session(term.scope).filter(Exists(rows.filter(owner=OuterRef("pk"))))))


def _current_rows(term: StateTerm) -> QuerySet[Any]:
    """Return the current state rows that match a term. For a whole key no value is read."""
    rows = STATE_ROWS[term.scope]._default_manager.filter(key_id=scopes.key_id(term.key))
    return rows.filter(value_condition(term)) if _compares_value(term) else rows


def _was_written(term: StateTerm) -> Q:
    """Return the condition that a matching value was ever written."""
    rows = _ledger_rows(term).filter(owner_id=OuterRef("pk"))
    if term.scope is Scope.SESSION:
        return Q(Exists(rows))
    return Q(Exists(owner_of_outer_session(term.scope).filter(Exists(rows))))


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
