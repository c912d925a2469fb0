"""The moment at which a model looks at a session: before an event that a model wrote, after any other one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sessions_app.models import AgentSession, Event, EventKind
from sessions_app.state import history
from sessions_app.traces.model_calls import call_of

SAID = (EventKind.AGENT, EventKind.TOOL_CALL)
BY_MODEL = (*SAID, EventKind.ERROR)


@dataclass(frozen=True, slots=True)
class PreviewPoint:
    """What the agent's process is asked.

    Attributes:
        upto: the last event that the model sees; None: it sees none.
        is_before: the model that is meant wrote the event itself.
        agent: the agent whose model it is; empty: the root agent.
        branch: the branch that the model's agent worked in. Events may name another: after agents that worked side by
            side, ADK writes the branch of one of them to what comes next.
    """

    event: Event
    upto: Event | None
    is_before: bool
    agent: str
    branch: str
    state: dict[str, Any]

    def question(self, session: AgentSession, ask: bool) -> dict[str, Any]:
        """Return the body of `POST /devui/seen`."""
        return {
            "realm": session.realm,
            "user_id": session.user_id,
            "session_id": session.session_id,
            "event_id": self.upto.event_id if self.upto else "",
            "invocation_id": self.event.invocation_id,
            "branch": self.branch,
            "state": self.state,
            "agent": self.agent,
            "ask": ask,
        }


def find_preview_point(session: AgentSession, event: Event) -> PreviewPoint:
    """Return the moment of an event: the state then, and whose model looks."""
    is_before = event.author != "user" and event.kind in BY_MODEL
    upto: Event | None = event
    if is_before:
        upto = Event.objects.filter(session=session, seq=event.seq - 1).first()
    then = history.state_at(session, upto) if upto else history.state_at_start(session)
    call = call_of(event, session) if is_before else None
    branch = event.branch if call is None else call.branch
    return PreviewPoint(event, upto, is_before, _agent_at(session, event, upto), branch, then.merged())


def _agent_at(session: AgentSession, event: Event, upto: Event | None) -> str:
    if event.author != "user":
        return (_transferred_to(event, upto) if event.kind not in SAID else "") or event.author
    rows = Event.objects.filter(session=session, invocation_id=event.invocation_id, seq__gt=event.seq)
    return rows.exclude(author="user").order_by("seq").values_list("author", flat=True).first() or ""


def _transferred_to(event: Event, upto: Event | None) -> str:
    """Return the agent that the last event a model sees handed over to, in the invocation of an event; else "".

    An error that no model call became stands in the name of the agent that spoke last.
    """
    if upto is None or upto.invocation_id != event.invocation_id:
        return ""
    return str((json.loads(upto.data).get("actions") or {}).get("transferToAgent") or "")
