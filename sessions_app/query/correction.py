"""Names in a query that nothing has, and the known names they are close to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches

from sessions_app import state
from sessions_app.query.completion import Vocabulary
from sessions_app.query.terms import Field, Query, StateTerm, Term

NAMED = ("app", "user", "tool", "author", "tag", "key")
"""Terms whose values are names that the store knows."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A name of a query that nothing has. `suggestion` is the whole query with the name that was probably meant."""

    message: str
    suggestion: str = ""


def unknown(query: Query, known: Vocabulary) -> list[Remark]:
    """Return what is to be said of the names in a query that are not among the known ones."""
    remarks = []
    for position, term in enumerate(query.terms):
        wanted = _name_in(term)
        if wanted is None:
            continue
        kind, name = wanted
        names = known.of(kind)
        if name not in names:
            remarks.append(_remark(query, position, kind, name, names))
    return remarks


def _name_in(term: Term) -> tuple[str, str] | None:
    if isinstance(term, StateTerm):
        return "key", term.name
    if isinstance(term, Field) and term.name in NAMED:
        return term.name, term.value
    return None


def _remark(query: Query, position: int, kind: str, name: str, names: Iterable[str]) -> Remark:
    close = get_close_matches(name, list(names), 1)
    what = "No state has a key" if kind == "key" else f"No session has the {kind}"
    message = f"{what} {name[:80]!r}"
    if not close:
        return Remark(f"{message}.")
    terms = list(query.terms)
    terms[position] = _renamed(terms[position], close[0])
    return Remark(f"{message}: did you mean {close[0]!r}?", str(Query(tuple(terms))))


def _renamed(term: Term, name: str) -> Term:
    if isinstance(term, StateTerm):
        scope, key = state.scope_of(name)
        return replace(term, scope=scope, key=key)
    if isinstance(term, Field):
        return replace(term, value=name)
    return term
