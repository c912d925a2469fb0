"""Terms about state: keys and their values, now and ever."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q, QuerySet

from sessions_app import state
from sessions_app.comparing import compared, is_told_by_marks, marked
from sessions_app.finding.answers import (
    ENTRIES,
    FEW,
    FEW_TO_CHECK,
    MANY,
    Answer,
    among,
    is_common,
    list_of,
)
from sessions_app.finding.owners import (
    STATE_ROWS,
    of_the_row,
    one_of_each,
    sessions_beside,
    sessions_of,
)
from sessions_app.finding.tail import Tail
from sessions_app.models import AgentSession, Scope, StateChange, StateValue
from sessions_app.query import StateTerm, When


def written(name: str) -> StateTerm:
    """Return the term that asks for a key that was ever written."""
    try:
        scope, key = state.scope_of(name)
    except ValueError:
        scope, key = Scope.SESSION, name
    return StateTerm(scope, key, when=When.EVER)


def with_state(term: StateTerm, tail: Tail, most: int) -> Answer:
    """Return the sessions whose state is or was as the term says, without its negation.

    Missing and never are what is not, now or ever.
    """
    if term.when is When.MISSING:
        return _without(term, ~_is_now(term))
    if term.when is When.EVER:
        return _was_ever(term, tail, most)
    if term.when is When.NOW:
        return _keys_now(term, tail)
    if not term.op:
        return _without(
            term, ~_is_now(term) & ~_is_in_ledger(term)
        )  # what is there spares a look at the ledger
    was = _was_ever(term, tail, MANY)
    return ~(was if isinstance(was, Q) else among(was))


def _is_now(term: StateTerm) -> Q:
    """Return the condition that the value which the session reads now is as the term says."""
    rows = STATE_ROWS[term.scope].filter(key_id=state.key_id(term.key)).filter(compared("value", term))
    if term.scope is Scope.SESSION:
        return Q(Exists(rows.filter(owner=OuterRef("pk"))))
    return Q(Exists(of_the_row(term.scope).filter(Exists(rows.filter(owner=OuterRef("pk"))))))


def _without(term: StateTerm, condition: Q) -> Q:
    """Test a condition on one session of each user or app, where real life has few of them, not on every session."""
    if term.scope is Scope.SESSION:
        return condition
    each = one_of_each(term.scope)
    if len(each) > FEW:
        return condition
    lacking = AgentSession.objects.filter(condition, pk__in=list_of(each)).values_list("pk", flat=True)
    found = sessions_beside(term.scope, list(lacking))
    return among(found) | ~Q(realm="") & condition if len(found) <= FEW else condition


def _keys_now(term: StateTerm, tail: Tail) -> Answer:
    """Answer by keys where the index of values knows few owners that ever had such a value."""
    had = _owners_ever(term, tail, FEW_TO_CHECK)
    if had is None:
        return _is_now(term)
    rows = STATE_ROWS[term.scope].filter(key_id=state.key_id(term.key), owner__in=list_of(had))
    owners = set(rows.filter(compared("value", term)).values_list("owner", flat=True))
    return _reading(term.scope, owners, FEW)


def _was_ever(term: StateTerm, tail: Tail, most: int) -> Answer:
    had = _owners_ever(term, tail, most)
    return _is_in_ledger(term) if had is None else _reading(term.scope, had, most)


def _is_in_ledger(term: StateTerm) -> Q:
    """Return the condition that a value was written which is as the term says."""
    rows = _written_values(term).filter(owner_id=OuterRef("pk"))
    if term.scope is Scope.SESSION:
        return Q(Exists(rows))
    return Q(Exists(of_the_row(term.scope).filter(Exists(rows))))


def _written_values(term: StateTerm) -> QuerySet[StateChange]:
    """Return the rows of the ledger that a term asks for; a key was written when it has any: no row itself is read."""
    rows = StateChange.objects.filter(scope=term.scope, key_id=state.key_id(term.key))
    return rows.filter(compared("value", term), removed=False) if term.op or term.path else rows


def _owners_ever(term: StateTerm, tail: Tail, most: int) -> set[int] | None:
    """Return the owners whose key ever had such a value, by the index of values; None: it cannot tell, or of too many.

    For what is now, that they may have had it is enough.
    """
    marks = marked(term)
    if not tail.has_all:
        return None
    rows = StateValue.objects.filter(marks, scope=term.scope, key_id=state.key_id(term.key))
    owners = _at_most(rows, FEW)
    if owners is None and most > FEW and not is_common(~_is_in_ledger(term)):
        owners = _at_most(rows, most)
    if owners is None or len(owners) > most:
        return None
    if term.when is not When.NOW and not is_told_by_marks(term):
        if len(owners) > FEW_TO_CHECK:
            return None
        changes = _written_values(term).filter(owner_id__in=list_of(owners))
        owners = set(changes.values_list("owner_id", flat=True))
    return owners | tail.owners(term)


def _at_most(rows: QuerySet[StateValue], most: int) -> set[int] | None:
    found = list(rows.values_list("owner_id", flat=True)[: ENTRIES * most + 1])
    return set(found) if len(found) <= ENTRIES * most else None


def _reading(scope: Scope, owners: set[int], most: int) -> Answer:
    """Return the sessions that read the state of these owners."""
    if scope is Scope.SESSION or not owners:
        return owners
    found = sessions_of(scope, owners, most)
    if len(found) <= most:
        return set(found)
    return Q(Exists(of_the_row(scope).filter(pk__in=list_of(owners))))
