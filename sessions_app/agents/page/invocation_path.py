"""The path of an invocation through its agents, read from its events."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import OuterRef, QuerySet, Subquery

from sessions_app.store.models import AgentSession, Event

MAX_EVENTS = 1_000
"""Events of an invocation that are read, from its start."""


@dataclass(frozen=True, slots=True)
class InvocationPath:
    """The agents and tools of an invocation.

    Attributes:
        turns: the agents and nodes in order, consecutive events of one run of a node or of one agent once.
        called: the tools that each agent called.
        is_cut: the invocation has more events than were read.
    """

    session: AgentSession
    invocation_id: str
    first_event_id: str
    turns: list[str] = field(default_factory=list)
    called: dict[str, set[str]] = field(default_factory=dict)
    is_cut: bool = False


def annotate_last_invocation(sessions: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Annotate sessions with their `last_invocation`, empty without events."""
    newest = Event.objects.filter(session=OuterRef("pk")).order_by("-seq").values("invocation_id")[:1]
    return sessions.annotate(last_invocation=Subquery(newest))


def find_invocation_path(sessions: Iterable[AgentSession], invocation_id: str) -> InvocationPath | None:
    """Return the path of an invocation in one of these sessions; None if none of them has it."""
    sessions_by_pk = {session.pk: session for session in sessions}
    if not invocation_id or not sessions_by_pk:
        return None
    events = Event.objects.filter(session__in=list(sessions_by_pk), invocation_id=invocation_id)
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
    previous = ("", "")
    for pk, _, author, text in rows[:MAX_EVENTS]:
        if pk != session_id or author == "user":
            continue
        summary = json.loads(text)
        node, run = workflow_node(author, summary.get("node") or "")
        speaker = node or author
        if previous != (speaker, run):
            turns.append(speaker)
        previous = speaker, run
        called[speaker].update(call["name"] for call in summary.get("calls") or [])
    return InvocationPath(
        sessions_by_pk[session_id], invocation_id, first_event_id, turns, dict(called), len(rows) > MAX_EVENTS
    )


def workflow_node(author: str, node_path: str) -> tuple[str, str]:
    """Return the name and the run of the workflow node that wrote an event; empty for an event of an agent.

    ADK names the workflow as the author, and its node (`name@run`) at the end of the node path.
    """
    *above, last = [part.partition("@") for part in node_path.split("/")]
    return (last[0], last[2]) if author in {name for name, _, _ in above} else ("", "")
