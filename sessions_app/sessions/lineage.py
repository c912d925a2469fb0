"""Where sessions come from: the session and the event that each was forked at, and the forks of a session."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from django.db.models import QuerySet

from sessions_app import realms
from sessions_app.models import AgentSession, Event, ImportedSession

DEEPEST = 50
"""Forks of forks that are followed back."""

FORKS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a session was forked, in words that outlive the session it was forked from.

    Attributes:
        seq, event_id: the last event that was taken over.
    """

    realm: str
    app: str
    user: str
    session: str
    seq: int
    event_id: str

    def text(self) -> str:
        """Return it as `AgentSession.lineage` keeps it."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A session whose first events, up to `last_seq`, another one has taken over."""

    pk: int
    last_seq: int


def origin_of(session: AgentSession) -> Origin | None:
    """Return where a session was forked; None when it is no fork."""
    return Origin(**json.loads(session.lineage)) if session.lineage else None


def imported_from(session: AgentSession) -> str:
    """Return the path or URL of the store that a session was imported from; empty when it was not."""
    if session.origin != "import":
        return ""
    mark: ImportedSession | None = getattr(session, "imported", None)
    return mark.source.location if mark else ""


def parent_of(session: AgentSession) -> AgentSession | None:
    """Return the session that a fork was made from; None also once that was deleted."""
    parent = session.forked_from
    return None if parent is None or realms.is_hidden(parent) else parent


def ancestors(session: AgentSession) -> list[Ancestor]:
    """Return the sessions that a fork's first events come from, nearest first; those deleted end the list."""
    found: list[Ancestor] = []
    parent, shared = session.forked_from_id, session.forked_seq or 0
    while parent is not None and len(found) < DEEPEST:
        found.append(Ancestor(parent, shared))
        above = AgentSession.objects.filter(pk=parent).values_list("forked_from_id", "forked_seq").first()
        parent, shared = (above[0], min(shared, above[1] or 0)) if above else (None, 0)
    return found


def forks_at(session: AgentSession, events: Sequence[Event]) -> dict[int, list[AgentSession]]:
    """Return the forks that were made at some of a session's events, by `seq`, oldest first. One query."""
    found: dict[int, list[AgentSession]] = defaultdict(list)
    if events:
        for fork in _forks(session).filter(forked_seq__range=(events[0].seq, events[-1].seq))[:FORKS_SHOWN]:
            found[fork.forked_seq or 0].append(fork)
    return found


def forks_of(session: AgentSession) -> list[AgentSession]:
    """Return the forks of a session, oldest first, at most `FORKS_SHOWN`."""
    return list(_forks(session)[:FORKS_SHOWN])


def _forks(session: AgentSession) -> QuerySet[AgentSession]:
    return realms.exclude_hidden(
        AgentSession.objects.select_related("mirrored").filter(forked_from=session)
    ).order_by("pk")
