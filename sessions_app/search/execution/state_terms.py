"""Terms about state: keys and their values, current or ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from sessions_app import scopes
from sessions_app.models import STATE_ROWS, Scope, StateChange, StateValue
from sessions_app.search.execution.session_sets import (
    ENTRIES_PER_SESSION,
    FEW,
    FEW_SHARED,
    MOST_READ,
    ConditionSet,
    Lister,
    SessionSet,
    Statement,
    complement_of,
    has_more_rows,
    in_column,
    in_keys,
    keys_statement,
    keys_subquery,
    negate_list,
    sessions_not_in,
    sorted_statement,
)
from sessions_app.search.execution.state_owners import (
    find_sessions_of,
    find_sessions_without,
    owner_of_outer_session,
)
from sessions_app.search.execution.unindexed_scan import UnindexedTail
from sessions_app.search.query import StateTerm, When
from sessions_app.search.state_conditions import (
    excluded_marks,
    is_decided_by_marks,
    mark_condition,
    marks_to_read,
    value_condition,
)


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
    is_turned = term.when in (When.MISSING, When.NEVER)
    is_now = term.when in (When.NOW, When.MISSING)
    if term.scope is not Scope.SESSION and is_turned != term.negated and not _compares_value(term):
        test = _holds_now(term) if is_now else _was_written(term)
        had = _owners_of_key(term, tail, is_now=is_now)
        matches: SessionSet = ConditionSet(
            test, None, None if had is None else lambda _: _reads_none_of(term.scope, had, ~test)
        )
    else:
        matches = _find_current(replace(term, when=When.NOW), tail) if is_now else _find_ever(term, tail)
    return complement_of(matches) if is_turned else matches


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
    return rows.filter(value_condition("value", term)) if _compares_value(term) else rows


def _reads_none_of(scope: Scope, owners: Statement, test: Q) -> Q:
    """Return the condition that a session reads the state of none of these owners; `test` is the same as a test."""
    pks = find_sessions_without(scope, owners)
    if len(pks) <= FEW_SHARED:
        return in_keys(pks)
    # There are many eval attempts, each with its own user.
    pks = find_sessions_without(scope, owners, where="realm = ''")
    return in_keys(pks) | ~Q(realm="") & test if len(pks) <= FEW_SHARED else test


def _owners_of_key(term: StateTerm, tail: UnindexedTail, *, is_now: bool) -> Statement | None:
    """Return a statement of the users or apps that have a key, or ever had it; None if no index lists all."""
    if is_now:
        return Statement(*_current_rows(term).values("owner").query.sql_with_params())
    if not tail.has_all:
        return None
    late = keys_statement(tail.owners(term))
    indexed, params = _value_rows(term).values("owner_id").query.sql_with_params()
    return Statement(f"{indexed} UNION ALL {late.sql}", (*params, *late.params))


def _find_current(term: StateTerm, tail: UnindexedTail) -> SessionSet:
    """Return the sessions that read a matching value now, searched among those that ever did if an index lists them."""
    is_now = _holds_now(term)
    had = _owners_ever(term, tail)
    if had is None:
        listed = _value_lister(term, tail, is_now)
        having = sorted_statement(_current_rows(_whole_key_term(term)), "owner")
        return ConditionSet(is_now, listed, _complement_lister(term, tail, having, ~is_now, listed))
    owners = set(_current_rows(term).filter(owner__in=keys_subquery(had)).values_list("owner", flat=True))
    return _sessions_reading(term, owners, is_now)


def _find_ever(term: StateTerm, tail: UnindexedTail) -> SessionSet:
    """Return the sessions that ever read a matching value."""
    is_in_ledger = _was_written(term)
    had = _owners_ever(term, tail)
    if had is not None:
        return _sessions_reading(term, had, is_in_ledger)
    if not tail.has_all:
        return ConditionSet(is_in_ledger)
    listed = _value_lister(term, tail, Q() if is_decided_by_marks(term) else is_in_ledger)
    having = sorted_statement(_value_rows(_whole_key_term(term)), "owner_id")
    others = _complement_lister(term, tail, having, ~is_in_ledger, listed)
    return ConditionSet(is_in_ledger, listed, others, some=_sample_of(term))


def _sample_of(term: StateTerm) -> frozenset[int]:
    """Return a sample of sessions whose own key ever had a matching value, if the index has it."""
    if term.scope is not Scope.SESSION or not is_decided_by_marks(term):
        return frozenset()
    return frozenset(_value_rows(term).values_list("owner_id", flat=True)[:FEW])


def _complement_lister(
    term: StateTerm, tail: UnindexedTail, having: Statement, test: Q, listed: Lister | None
) -> Lister | None:
    """Return the lister of the sessions that a term does not match; None if no index has the candidates.

    Candidates lack the key, have another value, or are not indexed; they are tested.

    Args:
        having: yields the sessions that have the key, or ever had it.
        test: the condition that the term does not match.
        listed: lists the sessions that it matches.
    """
    if term.scope is not Scope.SESSION or not tail.has_all or not is_decided_by_marks(term):
        return None

    def others(most: int) -> Q | None:
        lacking = sessions_not_in(having)
        differing = None if lacking is None else _owners_differing(term)
        if lacking is None or differing is None:
            return negate_list(listed(most)) if listed else None
        return in_keys(lacking | differing | set(tail.sessions)) & test

    return others


def _whole_key_term(term: StateTerm) -> StateTerm:
    """Return the term about a term's whole key."""
    return replace(term, op="", path=())


def _owners_differing(term: StateTerm) -> set[int] | None:
    """Return the owners who had a value that does not match a term; None if there are more than `FEW_SHARED`."""
    values = StateValue.objects.filter(scope=term.scope, key_id=scopes.key_id(term.key))
    owners: set[int] = set()
    for other in excluded_marks(term):
        owner_ids = list(
            values.filter(other).values_list("owner_id", flat=True)[: ENTRIES_PER_SESSION * FEW_SHARED + 1]
        )
        owners.update(owner_ids)
        if len(owner_ids) > ENTRIES_PER_SESSION * FEW_SHARED or len(owners) > FEW_SHARED:
            return None
    return owners


def _value_lister(term: StateTerm, tail: UnindexedTail, besides: Q) -> Lister | None:
    """Return the lister of sessions by the values of their own keys; None if the index cannot decide.

    Args:
        besides: condition tested on each listed session. Where it reads values, a long list is useless.
    """
    if term.scope is not Scope.SESSION or not tail.has_all or _reads_too_many(term):
        return None
    rows = _value_rows(term)

    def listed(most: int) -> Q | None:
        matches = in_column(rows, "owner_id", most if is_decided_by_marks(term) else min(most, MOST_READ))
        return None if matches is None else (matches | Q(pk__in=tail.owners(term))) & besides

    return listed


def _was_written(term: StateTerm) -> Q:
    """Return the condition that a matching value was ever written."""
    rows = _ledger_rows(term).filter(owner_id=OuterRef("pk"))
    if term.scope is Scope.SESSION:
        return Q(Exists(rows))
    return Q(Exists(owner_of_outer_session(term.scope).filter(Exists(rows))))


def _ledger_rows(term: StateTerm) -> QuerySet[StateChange]:
    """Return the ledger rows that match a term. A key was written if it has any row: no row itself is read."""
    rows = StateChange.objects.filter(scope=term.scope, key_id=scopes.key_id(term.key))
    return rows.filter(value_condition("value", term), removed=False) if _compares_value(term) else rows


def _value_rows(term: StateTerm, marks: Q | None = None) -> QuerySet[StateValue]:
    """Return the indexed values that may match a term, or the values of its key with these marks."""
    return StateValue.objects.filter(
        marks or mark_condition(term), scope=term.scope, key_id=scopes.key_id(term.key)
    )


def _reads_too_many(term: StateTerm) -> bool:
    """Return whether a term needs the index of values entry by entry, and there are too many entries."""
    if term.op != "~" or term.path or not has_more_rows(_value_rows(_whole_key_term(term)), MOST_READ):
        return False
    return has_more_rows(_value_rows(term, marks_to_read(term)), MOST_READ)


def _owners_ever(term: StateTerm, tail: UnindexedTail) -> set[int] | None:
    """Return the owners whose key ever had a matching value; None if the index cannot decide or they are too many.

    For a term about the current value it suffices that they may have had it.
    """
    if not tail.has_all or _reads_too_many(term):
        return None
    most = FEW if term.scope is Scope.SESSION else FEW_SHARED
    owner_ids = list(_value_rows(term).values_list("owner_id", flat=True)[: ENTRIES_PER_SESSION * most + 1])
    owners = set(owner_ids)
    if len(owner_ids) > ENTRIES_PER_SESSION * most or len(owners) > most:
        return None
    if term.when is not When.NOW and not is_decided_by_marks(term):
        changes = _ledger_rows(term).filter(owner_id__in=keys_subquery(owners))
        owners = set(changes.values_list("owner_id", flat=True))
    return owners | tail.owners(term)


def _sessions_reading(term: StateTerm, owners: set[int], test: Q) -> SessionSet:
    """Return the sessions that read the state of these owners; `test` is the same as a condition."""
    if term.scope is Scope.SESSION or not owners:
        return owners
    pks = find_sessions_of(term.scope, owners)
    if len(pks) <= FEW_SHARED:
        return set(pks)
    return ConditionSet(test)
