"""The way that an invocation took through its agents, as its events tell."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import OuterRef, QuerySet, Subquery

from sessions_app.models import AgentSession, Event

MAX_EVENTS = 1_000
"""Events of an invocation that are looked at: its first ones."""


@dataclass(frozen=True, slots=True)
class InvocationPath:
    """What an invocation did.

    Attributes:
        turns: who spoke, one after the other; who goes on speaking stands once.
        called: the tools that each of them called.
        is_cut: it goes on behind what was read.
    """

    session: AgentSession
    invocation_id: str
    first_event_id: str
    turns: list[str] = field(default_factory=list)
    called: dict[str, set[str]] = field(default_factory=dict)
    is_cut: bool = False

    @property
    def heard(self) -> list[str]:
        """Each agent once, in the order of their first words."""
        return list(dict.fromkeys(self.turns))


def annotate_last_invocation(sessions: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Return the sessions with the `last_invocation` of each, empty without events."""
    newest = Event.objects.filter(session=OuterRef("pk")).order_by("-seq").values("invocation_id")[:1]
    return sessions.annotate(last_invocation=Subquery(newest))


def find_invocation_path(sessions: Iterable[AgentSession], invocation_id: str) -> InvocationPath | None:
    """Return the way of an invocation in one of these sessions; None when none of them has it."""
    known = {session.pk: session for session in sessions}
    if not invocation_id or not known:
        return None
    events = Event.objects.filter(session__in=list(known), invocation_id=invocation_id)
    rows = list(
        events.order_by("session_id", "seq").values_list("session_id", "event_id", "author", "summary")[
            : MAX_EVENTS + 1
        ]
    )
    if not rows:
        return None
    session_id, first_event_id = rows[0][0], rows[0][1]
    turns: list[str] = []
    called: dict[str, set[str]] = defaultdict(set)
    for pk, _, author, text in rows[:MAX_EVENTS]:
        if pk != session_id or author == "user":
            continue
        summary = json.loads(text)
        speaker = _speaker_of(author, summary.get("node") or "")
        if turns[-1:] != [speaker]:
            turns.append(speaker)
        called[speaker].update(call["name"] for call in summary.get("calls") or [])
    return InvocationPath(
        known[session_id], invocation_id, first_event_id, turns, dict(called), len(rows) > MAX_EVENTS
    )


def _speaker_of(author: str, node_path: str) -> str:
    """Return who spoke: a workflow is the author of what its nodes say, whose names (`name@run`) end the path."""
    *above, last = [part.partition("@")[0] for part in node_path.split("/")]
    return last if author in above else author
