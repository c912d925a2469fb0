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
    LONGEST_LIST,
    MOST_READ,
    ConditionSet,
    SessionSet,
    Statement,
    complement_of,
    has_more_rows,
    in_column,
    in_keys,
    keys_subquery,
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
    is_now = term.when in (When.NOW, When.MISSING)
    matches = _find_sessions(replace(term, when=When.NOW) if is_now else term, tail, is_now=is_now)
    return complement_of(matches) if term.when in (When.MISSING, When.NEVER) else matches


def _find_sessions(term: StateTerm, tail: UnindexedTail, *, is_now: bool) -> SessionSet:
    """Return the sessions that read a matching value now, or ever did.

    Those that read it now are searched among those that ever did, if an index lists them.
    """
    test = _holds_now(term) if is_now else _was_written(term)
    owners = _owners_ever(term, tail)
    if owners is not None:
        if is_now:
            rows = _current_rows(term).filter(owner__in=keys_subquery(owners))
            owners = set(rows.values_list("owner", flat=True))
        return _sessions_reading(term, owners, test)
    if term.scope is not Scope.SESSION or not tail.has_all:
        return ConditionSet(test)
    whole_key = replace(term, op="", path=())
    having = (
        sorted_statement(_current_rows(whole_key), "owner")
        if is_now
        else sorted_statement(_value_rows(whole_key), "owner_id")
    )
    is_tested = is_now or not is_decided_by_marks(term)
    return ConditionSet(
        test,
        lambda: _list_by_values(term, tail, test if is_tested else Q()),
        lambda: _list_others(term, tail, having, ~test),
    )


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


def _list_by_values(term: StateTerm, tail: UnindexedTail, test: Q) -> Q | None:
    """Return the condition to pass `test` and have an indexed value that may match; None if too many values match."""
    if _reads_too_many(term):
        return None
    matches = in_column(
        _value_rows(term), "owner_id", LONGEST_LIST if is_decided_by_marks(term) else MOST_READ
    )
    return None if matches is None else (matches | Q(pk__in=tail.owners(term))) & test


def _list_others(term: StateTerm, tail: UnindexedTail, having: Statement, test: Q) -> Q | None:
    """List the sessions that a term does not match: those that lack the key, have another value, or are not indexed.

    Args:
        having: yields the sessions that have the key, or ever had it.
        test: the condition that the term does not match; tested on each.
    """
    lacking = sessions_not_in(having) if is_decided_by_marks(term) else None
    differing = None if lacking is None else _owners_differing(term)
    if lacking is None or differing is None:
        return None
    return in_keys(lacking | differing | set(tail.sessions)) & test


def _owners_differing(term: StateTerm) -> set[int] | None:
    """Return the owners who had a value that does not match a term; None if there are more than `FEW_SHARED`."""
    values = StateValue.objects.filter(scope=term.scope, key_id=scopes.key_id(term.key))
    owners: set[int] = set()
    for marks in excluded_marks(term):
        more = _few_owners(values.filter(marks), FEW_SHARED)
        if more is None or len(owners | more) > FEW_SHARED:
            return None
        owners |= more
    return owners


def _few_owners(rows: QuerySet[StateValue], most: int) -> set[int] | None:
    """Return the owners of rows; None if there are more than `most`, or too many rows."""
    limit = ENTRIES_PER_SESSION * most
    owner_ids = list(rows.values_list("owner_id", flat=True)[: limit + 1])
    owners = set(owner_ids)
    return owners if len(owner_ids) <= limit and len(owners) <= most else None


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
    if term.op != "~" or term.path or not has_more_rows(_value_rows(replace(term, op="")), MOST_READ):
        return False
    return has_more_rows(_value_rows(term, marks_to_read(term)), MOST_READ)


def _owners_ever(term: StateTerm, tail: UnindexedTail) -> set[int] | None:
    """Return the owners whose key ever had a matching value; None if the index cannot decide or they are too many.

    For a term about the current value it suffices that they may have had it.
    """
    if not tail.has_all or _reads_too_many(term):
        return None
    owners = _few_owners(_value_rows(term), FEW if term.scope is Scope.SESSION else FEW_SHARED)
    if owners is None:
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
    return ConditionSet(test, others=lambda: _reads_none_of(term.scope, owners, ~test))


def _reads_none_of(scope: Scope, owners: set[int], test: Q) -> Q | None:
    """Return a list of the sessions that read the state of none of these owners, as a condition; None if too many.

    `test` is the condition that each session is tested with otherwise.
    """
    pks = find_sessions_without(scope, owners)
    if len(pks) <= FEW_SHARED:
        return in_keys(pks)
    # There are many eval attempts, each with its own user.
    pks = find_sessions_without(scope, owners, where="realm = ''")
    return in_keys(pks) | ~Q(realm="") & test if len(pks) <= FEW_SHARED else None
