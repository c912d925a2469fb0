"""ADK plugin that hides the errors of earlier attempts from a resumed invocation."""

from __future__ import annotations

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from typing_extensions import override


class PastFailuresPlugin(BasePlugin):
    """Removes the error events of earlier attempts from a resumed run's copy of its session.

    ADK repeats a tool call that is the last event of the agent (`decide_step_resume` in
    `google/adk/flows/llm_flows/core/_resume.py`). An error event after the call, written by `LocalRuns.fail` or by
    ADK's nodes, would end the agent without any work. The stored session keeps the errors.
    """

    def __init__(self, name: str = "devui_past_failures") -> None:
        super().__init__(name=name)

    @override
    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Remove the errors of this invocation from the session that its agents see."""
        events = invocation_context.session.events
        events[:] = [event for event in events if not _is_failure(event, invocation_context.invocation_id)]


def _is_failure(event: Event, invocation_id: str) -> bool:
    """Tell whether an event of the invocation contains nothing but an error."""
    done = event.actions
    is_mark = bool(done.state_delta or done.artifact_delta or done.agent_state or done.end_of_agent)
    return bool(
        event.invocation_id == invocation_id and event.error_code and not event.content and not is_mark
    )
