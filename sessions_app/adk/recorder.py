"""The recorder: a plug-in that observes what stored events do not contain.

It records the writer of each key of a state delta (tool call, callback by name, `output_key`, explicit delta), `temp:`
keys, which ADK removes before it stores an event, streamed chunks of text, and keys that were changed without an event.
`DjangoSessionService` stores these notes.

Model requests and responses, and the stages of a run, are written asynchronously (`invocation_log`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sessions_app.adk import nested_runs, provenance, run_log
from sessions_app.adk.delta_writers import (
    WatchedDelta,
    WatchedInvocation,
    WatchedInvocations,
    callback_writer,
    describe_lost_writes,
)
from sessions_app.adk.invocation_log import InvocationLog, InvocationLogs
from sessions_app.adk.mirror import MirroredSessionService
from sessions_app.adk.provenance import EventNotes
from sessions_app.adk.sequence_agents import LOOP_AGENTS, SEQUENCE_AGENTS
from sessions_app.adk.service import DjangoSessionService
from sessions_app.adk.untracked_state import StateCopy
from sessions_app.store.events.attribution import Writer, join_alternatives
from sessions_app.store.models import Trace
from sessions_app.store.short_texts import join_names

P = ParamSpec("P")

ChunkSink = Callable[[Session, Event], None]
"""Called with the session and the partial event of every streamed chunk, in the event loop; must not block."""

OUR_SERVICES = (DjangoSessionService, MirroredSessionService)

log = logging.getLogger(__name__)


def _make_harmless(
    hook: Callable[Concatenate[Recorder, P], Awaitable[None] | None],
) -> Callable[Concatenate[Recorder, P], Coroutine[Any, Any, None]]:
    """Turn a method into a hook whose errors are logged once and never end a run."""

    @functools.wraps(hook)
    async def harmless(self: Recorder, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            if (coroutine := hook(self, *args, **kwargs)) is not None:
                await coroutine
        except Exception:
            if not self.failed:
                self.failed = True
                log.exception(
                    "The recorder failed in %s; runs continue and their writers are inferred.", hook.__name__
                )

    return harmless


class Recorder(BasePlugin):
    """Records the writers of state keys, `temp:` writes, streamed chunks and model calls.

    Put it first among the App's plug-ins: a plug-in that returns a value from a hook hides the hook from later ones. If
    several callbacks or a tool could have written a key between two hooks, the writer is "one of" them.

    Args:
        on_chunk: called with every streamed chunk; without it chunks are not recorded.
        keep_temp: record `temp:` values as ghost keys, shown during their invocation.
        keep_calls: record model requests and responses, and the stages of runs.
        keep_logs: with `keep_calls`, record log records and printed text of runs.
        name: the plug-in's name, unique in an App.
    """

    def __init__(
        self,
        *,
        on_chunk: ChunkSink | None = None,
        keep_temp: bool = True,
        keep_calls: bool = True,
        keep_logs: bool = True,
        name: str = "devui_recorder",
    ) -> None:
        super().__init__(name=name)
        self.failed = False
        self._on_chunk = on_chunk
        self._keep_temp = keep_temp
        self._invocations = WatchedInvocations()
        self._logs = InvocationLogs(keep_logs=keep_logs)
        self._keep_calls = keep_calls

    @_make_harmless
    def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> None:
        """Note the invocation of the user's message, which passes no other hook."""
        notes = EventNotes(keep_temp=self._keep_temp)
        provenance.note_invocation(invocation_context.invocation_id, notes)
        if self._keep_calls and (log := self._logs.open(invocation_context)):
            log.note_stage("loaded", log.root_agent)
            log.nested_runs.note_message(invocation_context.invocation_id, user_message)

    @_make_harmless
    def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Note the other plug-ins, which may write, and copy the state."""
        plugins = invocation_context.plugin_manager.plugins
        invocation = self._invocations[invocation_context.invocation_id]
        invocation.other_plugins = [plugin for plugin in plugins if plugin is not self]
        if isinstance(invocation_context.session_service, OUR_SERVICES):
            copy = StateCopy.of(invocation_context.session.state)
            provenance.watch_state(invocation_context.invocation_id, copy)
        if self._keep_calls and (log := self._logs.open(invocation_context)):
            log.note_start()
            agent, is_nested = invocation_context.agent, log.invocation_id != invocation_context.invocation_id
            if isinstance(agent, BaseAgent) and not is_nested and not invocation_context.is_resumable:
                for left_out in _left_out(agent):
                    log.note_stage(Trace.SEQUENCE_STOPPED, left_out)

    @_make_harmless
    def before_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        """From here on the agent's `before_agent_callback`s write."""
        self._invocations[callback_context.invocation_id].agents[agent.name] = agent
        run_log.note_agent(agent.name)
        self._hand_to_callbacks(callback_context, "before_agent_callback")
        if log := self._find_log(callback_context):
            log.note_stage("agent", agent.name)

    @_make_harmless
    def after_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        """From here on the agent's `after_agent_callback`s write."""
        self._hand_to_callbacks(callback_context, "after_agent_callback")
        if log := self._find_log(callback_context):
            log.note_stage("agent ended", agent.name)

    @_make_harmless
    def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """From here on the agent's `before_model_callback`s write."""
        self._hand_to_callbacks(callback_context, "before_model_callback")
        if log := self._find_log(callback_context):
            log.note_request(callback_context, llm_request)

    @_make_harmless
    def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """From here on the agent's `after_model_callback`s write."""
        self._hand_to_callbacks(callback_context, "after_model_callback")
        if log := self._find_log(callback_context):
            log.note_response(callback_context, llm_response)

    @_make_harmless
    def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        """From here on the agent's `on_model_error_callback`s write."""
        self._hand_to_callbacks(callback_context, "on_model_error_callback")
        if log := self._find_log(callback_context):
            log.note_model_error(callback_context, error)

    @_make_harmless
    def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """From here on the agent's `before_tool_callback`s write, and then the tool."""
        invocation = self._invocations[tool_context.invocation_id]
        delta, call_id = invocation.delta(tool_context.actions), tool_context.function_call_id or ""
        delta.began = next(invocation.clock)
        callbacks = invocation.callbacks(tool_context.agent_name, "before_tool_callback")
        delta.hand_to(Writer("tool", join_alternatives([*callbacks, tool.name]), call_id, inferred=False))
        branch = tool_context.branch or ""
        if call_id:
            invocation.calls.add_call({"id": call_id, "name": tool.name}, delta, branch)
        nested_runs.note_call(tool_context.invocation_id, call_id, branch)
        run_log.note_tool(tool_context.agent_name, tool.name, call_id)
        if log := self._find_log(tool_context):
            log.note_stage("tool", tool.name)

    @_make_harmless
    def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> None:
        """From here on the agent's `after_tool_callback`s write."""
        invocation = self._invocations[tool_context.invocation_id]
        invocation.delta(tool_context.actions).ended = next(invocation.clock)
        run_log.note_agent(tool_context.agent_name)
        self._hand_to_callbacks(tool_context, "after_tool_callback")
        if log := self._find_log(tool_context):
            log.note_stage("tool ended", tool.name)

    @_make_harmless
    def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> None:
        """From here on the agent's `on_tool_error_callback`s write."""
        if (log := self._find_log(tool_context)) and log.run_log:
            log.run_log.note_exception(tool.name, error)
        run_log.note_agent(tool_context.agent_name)
        self._hand_to_callbacks(tool_context, "on_tool_error_callback")
        if log:
            log.note_stage("tool failed", tool.name)
            log.note_error_cause(error)

    @_make_harmless
    def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:
        """Pass on a streamed chunk; note the writers of an event that is about to be appended.

        The abort event of a cancelled invocation gets the streamed text.

        An agent that is used as a tool (`AgentTool`) runs in an in-memory session; its events are stored as those of a
        nested run.
        """
        model = ""
        if log := self._logs.get(invocation_context.invocation_id):
            if not event.partial:
                log.note_event(event)
            log.note_live_event(event)
            model = log.find_model(event)
            log.nested_runs.note_event(invocation_context.invocation_id, event, model)
        if isinstance(invocation_context.session_service, InMemorySessionService):
            return
        self._invocations[invocation_context.invocation_id].streams.note(event)
        if event.partial:
            if self._on_chunk is not None:
                self._on_chunk(invocation_context.session, event)
            return
        if log and log.run_log:
            log.run_log.last_event_id = event.id
        invocation = self._invocations[invocation_context.invocation_id]
        calls = _answered_calls(invocation, event)
        writers = _find_writers(invocation, event, calls)
        provenance.note_event(event.id, EventNotes(writers, self._keep_temp, model))
        if log:
            for lost_write in describe_lost_writes(calls, event.actions.state_delta):
                log.note_stage(Trace.LOST_WRITE, lost_write)

    @_make_harmless
    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Note the keys that were changed without an event; forget the invocation."""
        await self._end_invocation(invocation_context, None)

    @_make_harmless
    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """Note the keys that were changed without an event; forget the invocation."""
        await self._end_invocation(invocation_context, error)

    def _hand_to_callbacks(self, context: CallbackContext, hook: str) -> None:
        invocation = self._invocations[context.invocation_id]
        writer = callback_writer(invocation.callbacks(context.agent_name, hook))
        invocation.delta(context.actions).hand_to(writer)

    def _find_log(self, context: CallbackContext) -> InvocationLog | None:
        return self._logs.get(context.invocation_id)

    async def _end_invocation(self, invocation_context: InvocationContext, error: Exception | None) -> None:
        invocation_id, session = invocation_context.invocation_id, invocation_context.session
        self._invocations.forget(invocation_id)
        provenance.forget_invocation(invocation_id)
        copy, service = provenance.end_state_watch(invocation_id), invocation_context.session_service
        untracked_keys = copy.untracked_keys(session.state) if copy is not None else []
        if untracked_keys and isinstance(service, OUR_SERVICES):
            await service.note_untracked(session, invocation_id, untracked_keys)
        await self._logs.close(invocation_id, error)


def _left_out(agent: BaseAgent) -> Iterator[str]:
    """Yield the agents that do not run after an agent that an answer continues, because they belong to its ancestors.

    Without resumability ADK starts the agent that asked (`agents/_agent_router.py`), and no sequence or loop around it.
    """
    asker = agent.name
    while parent := agent.parent_agent:
        names = [sub_agent.name for sub_agent in parent.sub_agents]
        later = names[names.index(agent.name) + 1 :]
        if isinstance(parent, LOOP_AGENTS):
            later.append("further rounds")
        if later and isinstance(parent, SEQUENCE_AGENTS):
            yield f"{asker} went on without {join_names(later)} of {parent.name}"
        agent = parent


def _find_writers(
    invocation: WatchedInvocation, event: Event, calls: list[WatchedDelta]
) -> dict[str, Writer]:
    event_delta = invocation.delta(event.actions)
    output_key = _output_key(invocation, event)
    if output_key in event_delta.changed_keys():
        event_delta.credit(output_key, Writer("output_key", event.author, inferred=False))
    event_delta.credit_changes()
    return {
        key: _writer_among(calls, key, value) or event_delta.writers[key]
        for key, value in event.actions.state_delta.items()
    }


def _answered_calls(invocation: WatchedInvocation, event: Event) -> list[WatchedDelta]:
    """Return the deltas of the tool calls whose results the event holds, in ADK's merge order."""
    responses = [{"id": response.id, "name": response.name} for response in event.get_function_responses()]
    calls = [call for response in responses if (call := invocation.calls.take(response, event.branch or ""))]
    for call in calls:
        call.credit_changes()
    return calls


def _output_key(invocation: WatchedInvocation, event: Event) -> str:
    """Return the `output_key` under which an LLM agent saves this event's text or output; it is written last.

    See `LlmAgent.__maybe_save_output_to_state` and `workflow/_llm_agent_wrapper.py`.
    """
    parts = (event.content.parts if event.content else None) or []
    says_something = event.output is not None or any(part.text and not part.thought for part in parts)
    key = getattr(invocation.agents.get(event.author), "output_key", None)
    return str(key) if key and says_something else ""


def _writer_among(calls: list[WatchedDelta], key: str, value: object) -> Writer | None:
    """Return the writer of the call whose value the event has; for a merged dict, all writers."""
    wrote = [call for call in calls if key in call.writers]
    exact = [call for call in wrote if call.actions.state_delta.get(key) == value]
    if exact or len(wrote) == 1:
        return (exact or wrote)[-1].writers[key]
    if not wrote:
        return None
    return Writer("tool", " and ".join(call.writers[key].name for call in wrote), inferred=False)
