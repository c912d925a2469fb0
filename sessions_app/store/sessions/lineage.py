"""Lineage of sessions: the session and event that each was forked at, and the forks of a session."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection
from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber

from sessions_app.store import realms
from sessions_app.store.models import AgentSession, Event, ImportedSession

DEEPEST = 50
"""Maximum number of ancestors that are followed."""

MAX_FORKS = 50
"""Forks of a session that are listed; the others are counted."""

MAX_FORKS_AT_EVENT = 5
"""Forks made at one event that are listed; the others are counted."""


@dataclass(frozen=True, slots=True)
class Forks:
    """The first forks of a session or of one of its events, oldest first, and the number of all of them."""

    sessions: list[AgentSession]
    count: int

    @property
    def unlisted(self) -> int:
        """The number of forks that are not in `sessions`."""
        return self.count - len(self.sessions)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a fork, in values that outlive the original session.

    Attributes:
        seq, event_id: the last event that was copied.
    """

    realm: str
    app: str
    user: str
    session: str
    seq: int
    event_id: str

    def text(self) -> str:
        """Return the text stored in `AgentSession.lineage`."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A session whose first events, up to `last_seq`, a fork has copied."""

    pk: int
    last_seq: int


def read_origin(session: AgentSession) -> Origin | None:
    """Return the origin of a fork; None if the session is not a fork."""
    return Origin(**json.loads(session.lineage)) if session.lineage else None


def imported_from(session: AgentSession) -> str:
    """Return the path or URL of the store that a session was imported from; empty if it was not imported."""
    if session.origin != "import":
        return ""
    mark: ImportedSession | None = getattr(session, "imported", None)
    return mark.source.location if mark else ""


def find_parent(session: AgentSession) -> AgentSession | None:
    """Return the session that a fork was made from; None if it is not a fork or the session was deleted."""
    parent = session.forked_from
    return None if parent is None or realms.is_hidden(parent) else parent


def ancestors(session: AgentSession) -> list[Ancestor]:
    """Return the sessions that a fork's first events come from, nearest first, up to a deleted one."""
    nearest_first: list[Ancestor] = []
    parent, shared = session.forked_from_id, session.forked_seq or 0
    while parent is not None and len(nearest_first) < DEEPEST:
        nearest_first.append(Ancestor(parent, shared))
        above = AgentSession.objects.filter(pk=parent).values_list("forked_from_id", "forked_seq").first()
        parent, shared = (above[0], min(shared, above[1] or 0)) if above else (None, 0)
    return nearest_first


def list_forks_at(session: AgentSession, events: Sequence[Event]) -> dict[int, Forks]:
    """Return the forks made at some of a session's events, by `seq`, each at most `MAX_FORKS_AT_EVENT`. One query."""
    if not events:
        return {}
    at_event = F("forked_seq")
    rows = (
        _visible_forks(session)
        .filter(forked_seq__range=(events[0].seq, events[-1].seq))
        .annotate(
            number=Window(RowNumber(), partition_by=at_event, order_by="pk"),
            count=Window(Count("pk"), partition_by=at_event),
        )
        .filter(number__lte=MAX_FORKS_AT_EVENT)
    )
    forks: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        forks[row.forked_seq or 0].append(row)
    return {seq: Forks(sessions, sessions[0].count) for seq, sessions in forks.items()}


def list_forks(session: AgentSession) -> Forks:
    """Return the forks of a session, at most `MAX_FORKS`. One query, two if there are more."""
    forks = _visible_forks(session)
    sessions = list(forks[:MAX_FORKS])
    return Forks(sessions, len(sessions) if len(sessions) < MAX_FORKS else forks.count())


def _visible_forks(session: AgentSession) -> QuerySet[AgentSession]:
    return realms.exclude_hidden(
        AgentSession.objects.select_related("mirrored").filter(forked_from=session)
    ).order_by("pk")


_FIRST_DIFFERENT = """
SELECT a.seq FROM sessions_app_event a
LEFT JOIN sessions_app_event b ON b.session_id = %s AND b.seq = a.seq
WHERE a.session_id = %s AND a.seq > %s AND (b.event_id IS NULL OR b.event_id <> a.event_id)
ORDER BY a.seq LIMIT 1
"""


def count_common_events(left: AgentSession, right: AgentSession) -> int:
    """Return the number of first events that two sessions share, by event id.

    Events copied by a fork are skipped, and the scan ends at the first event that differs.
    """
    if left.pk == right.pk:
        return left.last_seq
    shared = _count_shared_by_lineage(left, right)
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_DIFFERENT, [right.pk, left.pk, shared])
        row = cursor.fetchone()
    return row[0] - 1 if row else left.last_seq


def _count_shared_by_lineage(left: AgentSession, right: AgentSession) -> int:
    """Return the number of first events that both sessions copied from the same session, or one from the other."""
    ours = {left.pk: left.last_seq} | {ancestor.pk: ancestor.last_seq for ancestor in ancestors(left)}
    theirs = {right.pk: right.last_seq} | {ancestor.pk: ancestor.last_seq for ancestor in ancestors(right)}
    return max((min(ours[pk], theirs[pk]) for pk in ours.keys() & theirs.keys()), default=0)
