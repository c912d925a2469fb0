"""Point in time of a model preview: before an event that a model wrote, after any other event."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sessions_app.store.events.conditions import comes_from_model, is_model_output
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.state import history
from sessions_app.traces.model_calls import find_event_call


@dataclass(frozen=True, slots=True)
class PreviewPoint:
    """The point in time for which the runtime computes a model request.

    Attributes:
        upto: the last event that the model sees; None if it sees none.
        is_before: the point is before the event, which the model wrote itself.
        agent: the agent of the model; empty: the root agent.
        branch: the branch of the agent. Events may name another: after parallel agents ADK writes the branch of one of
            them to the next events.
    """

    event: Event
    upto: Event | None
    is_before: bool
    agent: str
    branch: str
    state: dict[str, Any]

    def question(self, session: AgentSession, calls_code: bool) -> dict[str, Any]:
        """Return the request body of `POST /devui/seen`."""
        return {
            "realm": session.realm,
            "user_id": session.user_id,
            "session_id": session.session_id,
            "event_id": self.upto.event_id if self.upto else "",
            "invocation_id": self.event.invocation_id,
            "branch": self.branch,
            "state": self.state,
            "agent": self.agent,
            "calls_code": calls_code,
        }


def find_preview_point(session: AgentSession, event: Event) -> PreviewPoint:
    """Return the preview point of an event, with the state and the agent at that point."""
    is_before = comes_from_model(event)
    upto: Event | None = event
    if is_before:
        upto = Event.objects.filter(session=session, seq=event.seq - 1).first()
    then = history.state_at(session, upto) if upto else history.state_at_start(session)
    call = find_event_call(event, session) if is_before else None
    branch = event.branch if call is None else call.branch
    return PreviewPoint(event, upto, is_before, _agent_at(session, event, upto), branch, then.merge_scopes())


def _agent_at(session: AgentSession, event: Event, upto: Event | None) -> str:
    if event.author != "user":
        return (_transferred_to(event, upto) if not is_model_output(event) else "") or event.author
    rows = Event.objects.filter(session=session, invocation_id=event.invocation_id, seq__gt=event.seq)
    return rows.exclude(author="user").order_by("seq").values_list("author", flat=True).first() or ""


def _transferred_to(event: Event, upto: Event | None) -> str:
    """Return the agent to which the last visible event of the invocation transferred; "" if it did not transfer.

    An error without a model call carries the name of the previous agent.
    """
    if upto is None or upto.invocation_id != event.invocation_id:
        return ""
    return str((json.loads(upto.data).get("actions") or {}).get("transferToAgent") or "")
