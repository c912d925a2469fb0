"""ADK plugins that pause a run before and after calls of models and tools, until a person decides.

They are plugins of a run that was started with pause points only. That of calls is the first: the recorder behind it
sees what a person changed. That of outcomes is the last: the recorder before it has seen an outcome, and when. Agents
that are used as tools get the plugins of their caller, and parallel branches call the hooks at the same time: each
pauses by itself.
"""

from __future__ import annotations

from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import override

from devui.runtime.pause_contents import (
    describe_call,
    describe_model_error,
    describe_request,
    describe_result,
    describe_tool_error,
    describe_writes,
    read_parameters,
)
from devui.runtime.pause_edits import change_request, restore_unchanged
from devui.runtime.run_pauser import PausePosition, RunPauser, describe_change
from evals_app.execution.agent_callbacks import run_agent_callbacks
from sessions_app.adk.model_calls import request_json
from sessions_app.runs import pauses
from sessions_app.runs.pauses import Decision
from sessions_app.store import events as wire
from sessions_app.store.redaction import redact
from sessions_app.store.scopes import to_jsonable

CallKey = tuple[str, str, str]
"""Invocation, agent and branch of a model call; there is one at a time."""


class CallPausePlugin(BasePlugin):
    """Pauses a run before calls, and marks the events of calls that a person has changed."""

    def __init__(self, pauser: RunPauser) -> None:
        super().__init__(name="devui_call_pauses")
        self._pauser = pauser
        self._request_changes: dict[CallKey, dict[str, Any]] = {}

    @override
    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Pause before a model call; change its request, or answer in place of the model."""
        key = _model_call_key(callback_context)
        self._request_changes.pop(key, None)
        agent, read_state = callback_context.agent_name, callback_context.state.to_dict
        steps = self._pauser.find_steps(callback_context)
        if not (steps or self._pauser.points.matches_model_call(agent, read_state)):
            return None
        shown = request_json(llm_request)
        position = PausePosition(
            pauses.Kind.MODEL, agent, shown["model"], callback_context.branch or "", steps
        )
        decision = await self._pauser.wait_for_decision(position, describe_request(shown, read_state()))
        if decision.action == pauses.ANSWER:
            return build_model_answer(decision)
        if decision.system_instruction is not None or decision.contents is not None:
            change_request(llm_request, shown["contents"], decision)
            self._request_changes[key] = describe_change("request", decision)
        return None

    @override
    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        """Mark the complete answer to a request that a person has changed."""
        change = self._request_changes.get(_model_call_key(callback_context))
        if change is not None and not llm_response.partial:
            metadata = llm_response.custom_metadata or {}
            llm_response.custom_metadata = {**metadata, wire.CHANGES_BY_PERSON: [change]}
        return None

    @override
    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Pause before the call of a tool; change its arguments, or answer in place of the tool."""
        agent, read_state = tool_context.agent_name, tool_context.state.to_dict
        steps = self._pauser.find_steps(tool_context)
        is_chosen = self._pauser.points.matches_tool_call(agent, tool.name, tool_args, read_state)
        if not (steps or is_chosen) or await _asks_for_confirmation(tool, tool_args, tool_context):
            return None
        sent = to_jsonable(tool_args)
        shown = redact(sent)
        # The schema may require a credential that is not shown: then the arguments are not checked.
        schema = read_parameters(tool) if shown == sent else {}
        call_id = tool_context.function_call_id or ""
        position = PausePosition(
            pauses.Kind.TOOL, agent, tool.name, tool_context.branch or "", steps, call_id
        )
        content = describe_call(shown, schema, read_state())
        if isinstance(tool, AgentTool):
            content["is_agent"] = True
        decision = await self._pauser.wait_for_decision(position, content)
        if decision.action in (pauses.ANSWER, pauses.FAIL) and isinstance(decision.response, dict):
            self._pauser.note_tool_change(call_id, describe_change("result", decision))
            return decision.response
        if decision.args is not None:
            changed = restore_unchanged(decision.args, shown, dict(tool_args))
            tool_args.clear()
            tool_args.update(changed)
            self._pauser.note_tool_change(
                call_id, {**describe_change("arguments", decision), "args": decision.args}
            )
        return None

    @override
    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> None:
        """Step on after a call that a person has stepped over."""
        self._pauser.note_call_end(tool_context.function_call_id or "")

    @override
    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> None:
        """Step on after a call that a person has stepped over."""
        self._pauser.note_call_end(tool_context.function_call_id or "")

    @override
    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """Mark the event with the result of a call that a person has changed."""
        if event.partial:
            return None
        changes = [
            {**change, "tool": response.name or "", "call_id": response.id}
            for response in event.get_function_responses()
            for change in self._pauser.take_tool_changes(response.id or "")
        ]
        if changes:
            event.custom_metadata = {**(event.custom_metadata or {}), wire.CHANGES_BY_PERSON: changes}
        return None


class OutcomePausePlugin(BasePlugin):
    """Pauses a run after calls of tools, at errors, and before an event that writes state keys is stored."""

    def __init__(self, pauser: RunPauser) -> None:
        super().__init__(name="devui_outcome_pauses")
        self._pauser = pauser
        self._shown_error: Exception | None = None

    @override
    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Pause after the call of a tool, and change its result.

        A changed result passes the callbacks of the agent: ADK calls none after a plugin that returns a result.
        """
        agent, read_state = tool_context.agent_name, tool_context.state.to_dict
        call_id = tool_context.function_call_id or ""
        # A long-running tool has no result yet, and a request for a confirmation is none.
        is_open = result is None or call_id in tool_context.actions.requested_tool_confirmations
        if (
            is_open
            or self._pauser.has_given_result(call_id)
            or not self._pauser.points.matches_tool_result(agent, tool.name, tool_args, read_state)
        ):
            return None
        original = result if isinstance(result, dict) else {"result": result}
        shown, args = redact(to_jsonable(original)), redact(to_jsonable(tool_args))
        position = PausePosition(pauses.Kind.RESULT, agent, tool.name, tool_context.branch or "")
        decision = await self._pauser.wait_for_decision(position, describe_result(args, shown, read_state()))
        if decision.result is None:
            return None
        self._pauser.note_tool_change(call_id, describe_change("result", decision))
        changed: dict[str, Any] = restore_unchanged(decision.result, shown, original)
        arguments = {"tool": tool, "args": tool_args, "tool_context": tool_context, "tool_response": changed}
        altered = await run_agent_callbacks(tool_context, "canonical_after_tool_callbacks", arguments)
        return changed if altered is None else altered

    @override
    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> dict[str, Any] | None:
        """Pause when a tool raises; answer in its place, or let the error go on."""
        agent, read_state = tool_context.agent_name, tool_context.state.to_dict
        is_chosen = self._pauser.points.matches_tool_error(agent, tool.name, tool_args, read_state)
        if not (is_chosen and self._is_new(error)):
            return None
        content = describe_tool_error(error, redact(to_jsonable(tool_args)), read_state())
        position = PausePosition(pauses.Kind.TOOL_ERROR, agent, tool.name, tool_context.branch or "")
        decision = await self._pauser.wait_for_decision(position, content)
        if decision.action != pauses.ANSWER or not isinstance(decision.response, dict):
            return None
        self._pauser.note_tool_change(
            tool_context.function_call_id or "", describe_change("result", decision)
        )
        return decision.response

    @override
    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Pause when a model raises; answer in its place, or let the error go on."""
        agent, read_state = callback_context.agent_name, callback_context.state.to_dict
        is_chosen = self._pauser.points.matches_model_error(agent, read_state)
        if not (is_chosen and self._is_new(error)):
            return None
        shown = request_json(llm_request)
        content = describe_model_error(error, shown, read_state())
        position = PausePosition(
            pauses.Kind.MODEL_ERROR, agent, shown["model"], callback_context.branch or ""
        )
        decision = await self._pauser.wait_for_decision(position, content)
        return build_model_answer(decision) if decision.action == pauses.ANSWER else None

    @override
    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """Pause before an event that writes chosen state keys is stored."""
        if event.partial or not self._pauser.points.state_keys:
            return None
        delta = event.actions.state_delta
        state = invocation_context.session.state
        if keys := self._pauser.points.find_writes(event.author, delta, lambda: state):
            content = describe_writes({key: delta[key] for key in keys}, state)
            position = PausePosition(pauses.Kind.STATE, event.author, ", ".join(keys), event.branch or "")
            await self._pauser.wait_for_decision(position, content)
        return None

    def _is_new(self, error: BaseException) -> bool:
        """Tell whether an error is no cancellation, and not one that passes from an inner agent to its caller."""
        if not isinstance(error, Exception) or error is self._shown_error:
            return False
        self._shown_error = error
        return True


def build_model_answer(decision: Decision) -> LlmResponse:
    """Return the answer of a person in place of a model: a text or a tool call."""
    part = (
        types.Part.from_function_call(**decision.call)
        if decision.call is not None
        else types.Part(text=str(decision.response))
    )
    return LlmResponse(
        content=types.Content(role="model", parts=[part]),
        custom_metadata={wire.CHANGES_BY_PERSON: [describe_change("answer", decision)]},
    )


async def _asks_for_confirmation(
    tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
) -> bool:
    """Tell whether ADK asks a person for a confirmation instead of calling the tool.

    The approved call has the arguments of the model, whatever was changed before: it pauses then
    (`flows/llm_flows/tools/_confirmation.py`).
    """
    if tool_context.tool_confirmation is not None:
        return False
    try:
        return await tool.check_require_confirmation(tool_args, tool_context) is True
    except Exception:  # ADK reports it when it asks the tool
        return False


def _model_call_key(context: CallbackContext) -> CallKey:
    return context.invocation_id, context.agent_name, context.branch or ""
