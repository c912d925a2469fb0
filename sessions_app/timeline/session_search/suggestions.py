"""Suggestions for a search within a session: filter chips, and names for completion."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.db.models import Value

from sessions_app.search.query.completion import Vocabulary
from sessions_app.search.query.parsing import parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.search.query.terms import Field, Query
from sessions_app.store import scopes
from sessions_app.store.database.combined_query import read_together
from sessions_app.store.events import event_text
from sessions_app.store.events.kinds import EventKind
from sessions_app.store.models import AgentSession, AppState, Event, Scope, SessionTrait, UserState

MAX_NAMES = 60
"""Maximum number of suggested values per field."""

MAX_UNINDEXED = 200
"""Newest events that are read directly because they are not indexed yet."""

MAX_KEYS = 300


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter for a kind, author, tool or branch; `query` is the query with the filter toggled."""

    field: str
    value: str
    label: str
    query: str
    is_on: bool


def chips(session: AgentSession, text: str) -> list[tuple[str, list[Chip]]]:
    """Return (field, chips) for the kinds, authors, tools and branches of a session. One query.

    Args:
        session: the session.
        text: the current query; an invalid query counts as empty.
    """
    try:
        query = parse(text)
    except QueryError:
        query = Query()
    names = _read_names(session)
    labels = {kind.value: kind.label for kind in EventKind}
    return [
        (field, [_make_chip(query, field, value, labels) for value in names[field]])
        for field in ("kind", "author", "tool", "branch")
        if names[field]
    ]


def _make_chip(query: Query, field: str, value: str, labels: dict[str, str]) -> Chip:
    other_terms = tuple(
        term
        for term in query.terms
        if not (isinstance(term, Field) and term.name == field and not term.negated)
    )
    term_of_chip = Field(field, value)
    is_on = term_of_chip in query.terms
    label = labels[value] if field == "kind" else value
    return Chip(
        field,
        value,
        label,
        str(replace(query, terms=other_terms if is_on else (*other_terms, term_of_chip))),
        is_on,
    )


def vocabulary(session: AgentSession) -> Vocabulary:
    """Return the names that a query within a session can contain. Four queries."""
    names = _read_names(session)
    state_keys = [*session.state_rows.order_by("key").values_list("key", flat=True)[:MAX_KEYS]]
    owner = {"owner__realm": session.realm, "owner__app_name": session.app_name}
    users = UserState.objects.filter(**owner, owner__user_id=session.user_id).order_by("key")
    apps = AppState.objects.filter(**owner).order_by("key")
    state_keys += [scopes.PREFIX[Scope.USER] + key for key in users.values_list("key", flat=True)[:MAX_KEYS]]
    state_keys += [scopes.PREFIX[Scope.APP] + key for key in apps.values_list("key", flat=True)[:MAX_KEYS]]
    return Vocabulary(tools=names["tool"], authors=names["author"], keys=state_keys)


def _read_names(session: AgentSession) -> dict[str, list[str]]:
    """Return the kinds, authors, tools and branches of a session, from the index and the newest events."""
    fields = ("kind", "author", "tool", "branch")
    traits = SessionTrait.objects.filter(session=session, name__in=fields).order_by("name", "value")
    tail = Event.objects.filter(session=session, seq__gt=session.indexed_seq).order_by("-seq")
    indexed, unindexed = read_together(
        traits.values_list("name", "value", Value(""), Value(""))[: len(fields) * MAX_NAMES],
        tail.values_list("kind", "author", "branch", "summary")[:MAX_UNINDEXED],
    )
    pairs = {(name, value) for name, value, *_ in indexed}
    for columns in unindexed:
        pairs.update(event_text.event_traits(*columns))
    values = {name: sorted(value for kind, value in pairs if kind == name)[:MAX_NAMES] for name in fields}
    return {**values, "kind": [kind for kind in EventKind if kind in values["kind"]]}
