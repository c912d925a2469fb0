"""Terms about state: keys and their values, now and ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from sessions_app import scopes
from sessions_app.models import STATE_ROWS, Scope, StateChange, StateValue
from sessions_app.search.execution.session_sets import (
    ENTRIES,
    FEW,
    FEW_SHARED,
    READ,
    Answer,
    Lister,
    Many,
    Statement,
    among,
    but,
    is_more,
    list_of,
    listed_in,
    sorted_by,
    turned,
    unlisted,
    yielded,
)
from sessions_app.search.execution.state_owners import of_the_row, sessions_of, sessions_without
from sessions_app.search.execution.unindexed_scan import Tail
from sessions_app.search.query import StateTerm, When
from sessions_app.search.state_conditions import being_read, compared, is_told_by_marks, marked, unmarked


def written(name: str) -> StateTerm:
    """Return the term that asks for a key that was ever written."""
    try:
        scope, key = scopes.scope_of(name)
    except ValueError:
        scope, key = Scope.SESSION, name
    return StateTerm(scope, key, when=When.EVER)


def with_state(term: StateTerm, tail: Tail) -> Answer:
    """Return the sessions whose state is or was as the term says, without its negation.

    Missing and never are what is not, now or ever.
    """
    is_turned = term.when in (When.MISSING, When.NEVER)
    is_now = term.when in (When.NOW, When.MISSING)
    if term.scope is not Scope.SESSION and is_turned != term.negated and not _is_of_value(term):
        test = _is_now(term) if is_now else _is_in_ledger(term)
        had = _owners_of_key(term, tail, is_now=is_now)
        answer: Answer = Many(test, None, None if had is None else lambda _: _without(term.scope, had, ~test))
    else:
        answer = _being(replace(term, when=When.NOW), tail) if is_now else _ever(term, tail)
    return turned(answer) if is_turned else answer


def _is_of_value(term: StateTerm) -> bool:
    """Tell whether a term is about a key's value, and not about the key alone."""
    return bool(term.op or term.path)


def _is_now(term: StateTerm) -> Q:
    """Return the condition that the value which the session reads now is as the term says."""
    rows = _now(term)
    if term.scope is Scope.SESSION:
        return Q(Exists(rows.filter(owner=OuterRef("pk"))))
    return Q(Exists(of_the_row(term.scope).filter(Exists(rows.filter(owner=OuterRef("pk"))))))


def _now(term: StateTerm) -> QuerySet[Any]:
    """Return the rows of the state that are as a term says; of a whole key no value is read."""
    rows = STATE_ROWS[term.scope]._default_manager.filter(key_id=scopes.key_id(term.key))
    return rows.filter(compared("value", term)) if _is_of_value(term) else rows


def _without(scope: Scope, owners: Statement, test: Q) -> Q:
    """Return the condition that a session reads the state of none of these owners, as a test tells, too."""
    found = sessions_without(scope, owners)
    if len(found) <= FEW_SHARED:
        return among(found)
    # Eval attempts are many, and each has a user of its own.
    found = sessions_without(scope, owners, where="realm = ''")
    return among(found) | ~Q(realm="") & test if len(found) <= FEW_SHARED else test


def _owners_of_key(term: StateTerm, tail: Tail, *, is_now: bool) -> Statement | None:
    """Return what yields the users or apps that have a key, or ever had it; None: no index tells them all."""
    if is_now:
        return Statement(*_now(term).values("owner").query.sql_with_params())
    if not tail.has_all:
        return None
    late = yielded(tail.owners(term))
    indexed, given = _values(term).values("owner_id").query.sql_with_params()
    return Statement(f"{indexed} UNION ALL {late.sql}", (*given, *late.given))


def _being(term: StateTerm, tail: Tail) -> Answer:
    """Return the sessions that read such a value now: among those that ever did, where an index knows them."""
    is_now = _is_now(term)
    had = _owners_ever(term, tail)
    if had is None:
        listed = _by_values(term, tail, is_now)
        having = sorted_by(_now(_of_key(term)), "owner")
        return Many(is_now, listed, _others(term, tail, having, ~is_now, listed))
    owners = set(_now(term).filter(owner__in=list_of(had)).values_list("owner", flat=True))
    return _reading(term, owners, is_now)


def _ever(term: StateTerm, tail: Tail) -> Answer:
    """Return the sessions that ever read such a value."""
    is_in_ledger = _is_in_ledger(term)
    had = _owners_ever(term, tail)
    if had is not None:
        return _reading(term, had, is_in_ledger)
    if not tail.has_all:
        return Many(is_in_ledger)
    listed = _by_values(term, tail, Q() if is_told_by_marks(term) else is_in_ledger)
    having = sorted_by(_values(_of_key(term)), "owner_id")
    others = _others(term, tail, having, ~is_in_ledger, listed)
    return Many(is_in_ledger, listed, others, some=_some(term))


def _some(term: StateTerm) -> frozenset[int]:
    """Return a few sessions whose own key ever had such a value, where the index tells them."""
    if term.scope is not Scope.SESSION or not is_told_by_marks(term):
        return frozenset()
    return frozenset(_values(term).values_list("owner_id", flat=True)[:FEW])


def _others(term: StateTerm, tail: Tail, having: Statement, test: Q, listed: Lister | None) -> Lister | None:
    """Return what lists the sessions that a term does not hold for; None where no index tells which may be so.

    They lack the key, or a value of it is another one, or they are not indexed: these are tested.

    Args:
        having: yields the sessions that have the key, or ever had it.
        test: the condition that the term does not hold.
        listed: lists the sessions that it holds for.
    """
    if term.scope is not Scope.SESSION or not tail.has_all or not is_told_by_marks(term):
        return None

    def others(most: int) -> Q | None:
        lacking = unlisted(having)
        differing = None if lacking is None else _owners_differing(term)
        if lacking is None or differing is None:
            return but(listed(most)) if listed else None
        return among(lacking | differing | set(tail.sessions)) & test

    return others


def _of_key(term: StateTerm) -> StateTerm:
    """Return the term about the whole key of a term."""
    return replace(term, op="", path=())


def _owners_differing(term: StateTerm) -> set[int] | None:
    """Return the owners who had a value that is not as a term says; None: they are more than `FEW_SHARED`."""
    values = StateValue.objects.filter(scope=term.scope, key_id=scopes.key_id(term.key))
    owners: set[int] = set()
    for other in unmarked(term):
        found = list(values.filter(other).values_list("owner_id", flat=True)[: ENTRIES * FEW_SHARED + 1])
        owners.update(found)
        if len(found) > ENTRIES * FEW_SHARED or len(owners) > FEW_SHARED:
            return None
    return owners


def _by_values(term: StateTerm, tail: Tail, besides: Q) -> Lister | None:
    """Return what lists sessions by the values that their own keys had; None where the index cannot tell.

    Args:
        besides: what is tested on each session of the list. Where that reads values, a long list is of no use.
    """
    if term.scope is not Scope.SESSION or not tail.has_all or _is_read(term):
        return None
    rows = _values(term)

    def listed(most: int) -> Q | None:
        found = listed_in(rows, "owner_id", most if is_told_by_marks(term) else min(most, READ))
        return None if found is None else (found | Q(pk__in=tail.owners(term))) & besides

    return listed


def _is_in_ledger(term: StateTerm) -> Q:
    """Return the condition that a value was written which is as the term says."""
    rows = _written_values(term).filter(owner_id=OuterRef("pk"))
    if term.scope is Scope.SESSION:
        return Q(Exists(rows))
    return Q(Exists(of_the_row(term.scope).filter(Exists(rows))))


def _written_values(term: StateTerm) -> QuerySet[StateChange]:
    """Return the rows of the ledger that a term asks for; a key was written when it has any: no row itself is read."""
    rows = StateChange.objects.filter(scope=term.scope, key_id=scopes.key_id(term.key))
    return rows.filter(compared("value", term), removed=False) if _is_of_value(term) else rows


def _values(term: StateTerm, marks: Q | None = None) -> QuerySet[StateValue]:
    """Return the values that owners ever had and that may be as a term says; or of these marks, of its key."""
    return StateValue.objects.filter(marks or marked(term), scope=term.scope, key_id=scopes.key_id(term.key))


def _is_read(term: StateTerm) -> bool:
    """Tell whether the index of values would have to be read for a term, entry by entry, and has too many for it."""
    if term.op != "~" or term.path or not is_more(_values(_of_key(term)), READ):
        return False
    return is_more(_values(term, being_read(term)), READ)


def _owners_ever(term: StateTerm, tail: Tail) -> set[int] | None:
    """Return the owners whose key ever had such a value, by the index of values; None: it cannot tell, or of too many.

    For what is now, that they may have had it is enough.
    """
    if not tail.has_all or _is_read(term):
        return None
    most = FEW if term.scope is Scope.SESSION else FEW_SHARED
    found = list(_values(term).values_list("owner_id", flat=True)[: ENTRIES * most + 1])
    owners = set(found)
    if len(found) > ENTRIES * most or len(owners) > most:
        return None
    if term.when is not When.NOW and not is_told_by_marks(term):
        changes = _written_values(term).filter(owner_id__in=list_of(owners))
        owners = set(changes.values_list("owner_id", flat=True))
    return owners | tail.owners(term)


def _reading(term: StateTerm, owners: set[int], test: Q) -> Answer:
    """Return the sessions that read the state of these owners, who are all for whom a test holds."""
    if term.scope is Scope.SESSION or not owners:
        return owners
    found = sessions_of(term.scope, owners)
    if len(found) <= FEW_SHARED:
        return set(found)
    return Many(test)
