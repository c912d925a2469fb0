"""Plugin that replays a recording: it answers for tools and models, and notes differences.

It is the last plugin of an App. A plugin that answers for a model or a tool hides the call from later plugins and from
callbacks, so this one calls them itself, in ADK's order (`flows/llm_flows`: `core/_model_call.py`,
`tools/_caller.py`). The recorder is the exception: a model that was not called used no tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from evals_app.execution.agent_callbacks import run_agent_callbacks
from evals_app.execution.model_retry import join_responses
from evals_app.execution.replay import recording
from evals_app.execution.replay.recording import RecordedCall, RecordedResult, Recording
from evals_app.execution.replay.tool_results import NotRecorded, RecordedResults, call_text
from evals_app.models import EvalAttempt
from evals_app.runs.replay.policy import FAIL, LIVE, RECORDED, ReplayPolicy
from evals_app.runs.replay.recorded_runs import recorded_session
from evals_app.runs.replay.request_diff import compare_requests
from sessions_app.adk.model_calls import request_json
from sessions_app.adk.recorder import Recorder
from sessions_app.store.database import units_of_work
from sessions_app.store.scopes import EVALUATION_KEY

CONTROL_TOOLS = frozenset(("transfer_to_agent", "exit_loop", "set_model_response", "finish_task"))
"""ADK's own tools that only control the run: they are always called."""

ACTION_ATTRIBUTES = {
    "transferToAgent": "transfer_to_agent",
    "escalate": "escalate",
    "skipSummarization": "skip_summarization",
}

MAX_DIFFERENCES = 200


def create_replay(policy: ReplayPolicy, attempt: EvalAttempt) -> ReplayPlugin | None:
    """Return the plugin that replays an attempt; None if everything is live.

    Raises:
        NotRecorded: the recording does not exist.
    """
    if not policy.active:
        return None
    session = recorded_session(policy, attempt.case_id, attempt.repetition)
    if session is None and policy.needs_recording:
        where = f"Run {policy.run}" if policy.run else f"Session {policy.session}"
        raise NotRecorded(
            f"{where} has no recording of the case {attempt.case_id!r}.",
            "Its session was deleted, or that run did not have the case. Choose another run, or let it be live.",
        )
    return ReplayPlugin(policy, recording.read_recording(session) if session else None)


class ReplayPlugin(BasePlugin):
    """Replays a recording in one attempt. Without a recording everything is live or fails."""

    def __init__(self, policy: ReplayPolicy, recorded: Recording | None) -> None:
        super().__init__(name="devui_replay")
        self.differences: list[dict[str, Any]] = []
        self._policy = policy
        self._recorded = recorded
        self._results = RecordedResults(recorded.tools if recorded else [])
        self._session_id = ""
        self._turn = -1
        self._numbers: Counter[str] = Counter()
        self._live_calls: dict[int, tuple[CallbackContext, LlmRequest]] = {}
        self.not_recorded: NotRecorded | None = None

    @property
    def answers_for_models(self) -> bool:
        """Tell whether models answer as recorded and use no tokens."""
        return self._policy.models == RECORDED

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> None:
        """Count the turns. An agent used as a tool runs in another session, in the same turn."""
        self._session_id = self._session_id or invocation_context.session.id
        if invocation_context.session.id == self._session_id:
            self._turn += 1
            self._numbers.clear()

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Answer as recorded. A live model's request is compared after the call, because callbacks may change it."""
        if self._policy.models == LIVE:
            self._live_calls[id(callback_context.actions)] = callback_context, llm_request
            return None
        if answered := await self._callbacks_before(callback_context, llm_request):
            return answered
        response = await self._recorded_answer(callback_context.agent_name, llm_request)
        return await self._callbacks_after(callback_context, response)

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Compare the request of a live model with the recorded one."""
        await self._compare_live_call(callback_context)

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        """Compare the request of a failed call, too."""
        await self._compare_live_call(callback_context)

    async def _compare_live_call(self, context: CallbackContext) -> None:
        live_call = self._live_calls.pop(id(context.actions), None)
        recorded_call = self._next_answer(context.agent_name) if live_call else None
        if live_call is not None and recorded_call is not None:
            _, recorded_request = await units_of_work.read(recording.read_answer, recorded_call.pk)
            self._note_differences(recorded_call, recorded_request, live_call[1])

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Return the recorded result; a call without one ends the attempt."""
        if self._policy.tools == LIVE or tool.name in CONTROL_TOOLS:
            return None
        agent = tool_context.agent_name
        if self._policy.tools == FAIL:
            raise self._end_attempt(
                f"Agent {agent} calls {call_text(tool.name, tool_args)}, and tools may not be called in this run.",
                "Give it a fixture, or let tools be live or recorded.",
            )
        if (callback_result := await self._tool_callbacks(tool, tool_args, tool_context)) is not None:
            return callback_result
        try:
            result, again = self._results.take(agent, tool.name, tool_args)
        except NotRecorded as error:
            raise self._end_attempt(str(error), error.hint) from None
        if again:
            self._note_difference(agent, kind="tool", again=call_text(tool.name, tool_args))
        _restore_effects(result, tool_context)
        return dict(result.response)

    async def _recorded_answer(self, agent: str, request: LlmRequest) -> LlmResponse:
        recorded_call = self._next_answer(agent)
        if recorded_call is None and self._recorded is not None and not self._recorded.calls:
            raise self._end_attempt(
                f"Agent {agent} asks its model, and the recording has no call of any model.",
                "No recorder saw it: put Recorder() first among the App's plug-ins, or let models be live.",
            )
        if recorded_call is None:
            raise self._end_attempt(
                f"Agent {agent} asks its model once more in turn {self._turn + 1} than the recording has answers.",
                "Let models be live: the agent goes another way than it went then.",
            )
        responses, recorded_request = await units_of_work.read(recording.read_answer, recorded_call.pk)
        self._note_differences(recorded_call, recorded_request, request)
        if recorded_call.error or not responses:
            why = f" ({recorded_call.error})" if recorded_call.error else ""
            raise self._end_attempt(
                f"The model of agent {agent} gave no answer in turn {self._turn + 1} of the recording{why}.",
                "Let models be live.",
            )
        joined = join_responses([LlmResponse.model_validate(response) for response in responses])
        metadata = dict(joined.custom_metadata or {})
        metadata.pop(EVALUATION_KEY, None)
        return joined.model_copy(update={"custom_metadata": metadata or None})

    def _next_answer(self, agent: str) -> RecordedCall | None:
        """Return the recorded call that is the agent's next one in this turn."""
        number = self._numbers[agent]
        self._numbers[agent] += 1
        return self._recorded.calls.get((agent, self._turn, number)) if self._recorded else None

    def _note_differences(
        self, recorded_call: RecordedCall, recorded_request: Mapping[str, Any], request: LlmRequest
    ) -> None:
        if differences := compare_requests(recorded_request, request_json(request)):
            self._note_difference(
                recorded_call.agent,
                kind="request",
                call=recorded_call.number + 1,
                recorded_call=recorded_call.pk,
                **differences,
            )

    def _note_difference(self, agent: str, **fields: Any) -> None:
        if len(self.differences) < MAX_DIFFERENCES:
            self.differences.append({"turn": self._turn, "agent": agent, **fields})

    def _end_attempt(self, message: str, hint: str) -> NotRecorded:
        """Return the error that ends the attempt, and remember it: ADK wraps it, and agents may swallow it."""
        error = NotRecorded(message, hint)
        self.not_recorded = self.not_recorded or error
        return error

    async def _callbacks_before(self, context: CallbackContext, request: LlmRequest) -> LlmResponse | None:
        plugins = _run_plugins(context)
        arguments: dict[str, Any] = {"callback_context": context, "llm_request": request}
        for plugin in plugins[plugins.index(self) + 1 :]:
            if (response := await plugin.before_model_callback(**arguments)) is not None:
                return response
        result = await run_agent_callbacks(context, "canonical_before_model_callbacks", arguments)
        return result if isinstance(result, LlmResponse) else None

    async def _callbacks_after(self, context: CallbackContext, response: LlmResponse) -> LlmResponse:
        arguments: dict[str, Any] = {"callback_context": context, "llm_response": response}
        for plugin in _run_plugins(context):
            if plugin is self or isinstance(plugin, Recorder):
                continue
            if (altered := await plugin.after_model_callback(**arguments)) is not None:
                return altered
        result = await run_agent_callbacks(context, "canonical_after_model_callbacks", arguments)
        return result if isinstance(result, LlmResponse) else response

    async def _tool_callbacks(
        self, tool: BaseTool, args: dict[str, Any], context: ToolContext
    ) -> dict[str, Any] | None:
        plugins = _run_plugins(context)
        for plugin in plugins[plugins.index(self) + 1 :]:
            response = await plugin.before_tool_callback(tool=tool, tool_args=args, tool_context=context)
            if response is not None:
                return response
        arguments = {"tool": tool, "args": args, "tool_context": context}
        result = await run_agent_callbacks(context, "canonical_before_tool_callbacks", arguments)
        return result if isinstance(result, dict) else None


def _run_plugins(context: CallbackContext) -> list[BasePlugin]:
    return context.get_invocation_context().plugin_manager.plugins


def _restore_effects(result: RecordedResult, context: ToolContext) -> None:
    """Write the state keys and set the actions of a recorded tool call."""
    for key, value in result.delta.items():
        context.state[key] = value
    for name, value in result.actions.items():
        setattr(context.actions, ACTION_ATTRIBUTES[name], value)
