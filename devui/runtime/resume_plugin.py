"""What keeps an invocation that failed from going on: the events that tell of the failure."""

from __future__ import annotations

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from typing_extensions import override


class PastFailuresPlugin(BasePlugin):
    """Takes from a resumed run's copy of its session how the tries before it failed.

    ADK calls a tool once more when its call is the last event of the agent (`decide_step_resume` in
    `google/adk/flows/llm_flows/core/_resume.py`). An error behind the call, written by `Runs.fail` or by ADK's nodes,
    would end the agent instead, with nothing done. The stored session keeps the errors.
    """

    def __init__(self, name: str = "devui_past_failures") -> None:
        super().__init__(name=name)

    @override
    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Leave the errors of this invocation out of what its agents see."""
        events = invocation_context.session.events
        events[:] = [each for each in events if not _is_failure(each, invocation_context.invocation_id)]


def _is_failure(event: Event, invocation_id: str) -> bool:
    """Tell whether all that an event of the invocation says is an error."""
    done = event.actions
    is_mark = bool(done.state_delta or done.artifact_delta or done.agent_state or done.end_of_agent)
    return bool(
        event.invocation_id == invocation_id and event.error_code and not event.content and not is_mark
    )
