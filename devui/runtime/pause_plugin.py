"""ADK plugin that pauses a run before calls of models and tools, until a person decides.

It is a plugin of a run that was started with pause points only, the first one: the recorder behind it sees what a
person changed. A pause waits for the decision in its row (`sessions_app.runs.pauses`). Agents that are used as tools
get the plugins of their caller, and parallel branches call its hooks at the same time: each pauses by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import ValidationError
from typing_extensions import override

from devui.runtime._adk import get_declaration
from devui.runtime.agent_description import read_schema
from sessions_app.adk.model_calls import request_json
from sessions_app.console.pause_points import MINUTE_S, PausePoints
from sessions_app.runs import pauses
from sessions_app.runs.pauses import MAX_CONTENT, Decision, PauseContent
from sessions_app.store import events as wire
from sessions_app.store.database import retry
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.errors import BadInput
from sessions_app.store.events.summary import shorten
from sessions_app.store.redaction import redact
from sessions_app.store.scopes import dumps, to_jsonable

MAX_CUT = 4_000
"""Characters that are shown of the JSON of arguments or contents that are too long to be edited."""

MAX_STATE_KEYS = 200
MAX_STATE_VALUE = 2_000
"""Keys of the state that a pause shows, and characters of the JSON of each; of a longer value, the beginning."""

MAX_PAUSES = 20
"""Pauses of a run at once; further calls wait until a person has decided on one of them."""

POLL_S = 0.1
"""Longest polling interval on SQLite while a run is paused."""

Step = tuple[str, int]
"""Branch in which a person has chosen to step, and key of the pause."""

Call = tuple[str, str, str, PauseContent]
"""Kind, agent, target and content of a pause."""

CallKey = tuple[str, str, str]
"""Invocation, agent and branch of a model call; there is one at a time."""


class PausePlugin(BasePlugin):
    """Pauses one run at its pause points.

    Args:
        run_id: the run.
        points: where it pauses.
        expire: called once a pause has lasted too long, with the reason: cancels the run.
    """

    def __init__(self, run_id: str, points: PausePoints, expire: Callable[[str], None]) -> None:
        super().__init__(name="devui_pauses")
        self._run_id = run_id
        self._points = points
        self._expire = expire
        self._steps: set[Step] = set()
        self._free_pauses = asyncio.Semaphore(MAX_PAUSES)
        self._tool_changes: dict[str, dict[str, Any]] = {}
        self._request_changes: dict[CallKey, dict[str, Any]] = {}

    @override
    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Pause before a model call; change its request, or answer in place of the model."""
        key = _model_call_key(callback_context)
        self._request_changes.pop(key, None)
        agent, read_state = callback_context.agent_name, callback_context.state.to_dict
        steps = self._find_steps(callback_context)
        if not (steps or self._points.matches_model_call(agent, read_state)):
            return None
        shown = request_json(llm_request)
        content = _describe_request(shown, read_state())
        call = (pauses.Kind.MODEL, agent, shown["model"], content)
        decision = await self._wait_for_decision(call, callback_context.branch or "", steps)
        if decision.action == pauses.ANSWER:
            return LlmResponse(
                content=types.Content(role="model", parts=[types.Part(text=str(decision.response))]),
                custom_metadata={wire.CHANGES_BY_PERSON: [_describe_change("answer", decision)]},
            )
        if decision.system_instruction is not None or decision.contents is not None:
            change_request(llm_request, shown["contents"], decision)
            self._request_changes[key] = _describe_change("request", decision)
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
        steps = self._find_steps(tool_context)
        if not (steps or self._points.matches_tool_call(agent, tool.name, tool_args, read_state)):
            return None
        sent = to_jsonable(tool_args)
        shown = redact(sent)
        # The schema may require a credential that is not shown: then the arguments are not checked.
        schema = _read_parameters(tool) if shown == sent else {}
        call = (pauses.Kind.TOOL, agent, tool.name, _describe_call(shown, schema, read_state()))
        decision = await self._wait_for_decision(call, tool_context.branch or "", steps)
        call_id = tool_context.function_call_id or ""
        if decision.action in (pauses.ANSWER, pauses.FAIL) and isinstance(decision.response, dict):
            self._tool_changes[call_id] = _describe_change("result", decision)
            return decision.response
        if decision.args is not None:
            changed = restore_unchanged(decision.args, shown, dict(tool_args))
            tool_args.clear()
            tool_args.update(changed)
            self._tool_changes[call_id] = {**_describe_change("arguments", decision), "args": decision.args}
        return None

    @override
    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """Mark the event with the result of a call that a person has changed."""
        changes = [
            {**change, "tool": response.name or "", "call_id": response.id}
            for response in event.get_function_responses()
            if not event.partial and (change := self._tool_changes.pop(response.id or "", None)) is not None
        ]
        if changes:
            event.custom_metadata = {**(event.custom_metadata or {}), wire.CHANGES_BY_PERSON: changes}
        return None

    def _find_steps(self, context: CallbackContext) -> set[Step]:
        """Return the steps that end at a call: those in its branch, and in branches around or inside it."""
        branch = context.branch or ""
        return {step for step in self._steps if is_inside(branch, step[0]) or is_inside(step[0], branch)}

    async def _wait_for_decision(self, call: Call, branch: str, steps: set[Step]) -> Decision:
        """Pause until a person decides, which ends `steps`. If nobody decides in time, the run is cancelled instead."""
        kind, agent, target, content = call
        async with self._free_pauses:
            limit_s = self._points.limit_s
            deadline = time.monotonic() + limit_s
            names = (self._run_id, kind, shorten(agent), shorten(target))
            pk = await retry.write(pauses.add_pause, *names, content, time.time(), limit_s)
            async with subscribe(poll_s=POLL_S) as changes:
                while (decision := await retry.read(pauses.read_decision, pk)) is None:
                    if time.monotonic() >= deadline and await retry.write(pauses.expire_pause, pk):
                        await self._wait_for_cancellation(target)
                    await changes.wait()
            await retry.write(pauses.delete_pause, pk)
            self._steps -= steps
            if decision.action == pauses.STEP:
                self._steps.add((branch, pk))
            return decision

    async def _wait_for_cancellation(self, target: str) -> None:
        """Have the run cancelled because a pause has lasted too long."""
        minutes = self._points.limit_s / MINUTE_S
        self._expire(f"It was paused before {shorten(target)} for {minutes:g} min, and nobody decided.")
        await asyncio.Event().wait()


def is_inside(branch: str, other: str) -> bool:
    """Tell whether a branch is another one or inside it. The branch without a name has all."""
    return not other or branch == other or branch.startswith(f"{other}.")


def change_request(request: LlmRequest, shown: list[Any], decision: Decision) -> None:
    """Change a request as a person decided. Contents that are as they were shown stay the objects that they are.

    Raises:
        BadInput: a content is not what ADK's classes accept.
    """
    if decision.system_instruction is not None:
        request.config.system_instruction = decision.system_instruction or None
    if decision.contents is not None:
        indexes = match_items(decision.contents, shown)
        changed = [None if number in indexes else content for number, content in enumerate(decision.contents)]
        request.contents = [
            content or request.contents[indexes[number]]
            for number, content in enumerate(parse_contents(changed))
        ]


def parse_contents(contents: Sequence[Any]) -> list[types.Content | None]:
    """Return contents of a request from their JSON; None for those that are None, because they are not changed.

    Raises:
        BadInput: names the content, the field and the rule.
    """
    return [
        None if content is None else _parse_content(number, content)
        for number, content in enumerate(contents, 1)
    ]


def _parse_content(number: int, content: Any) -> types.Content:
    try:
        return types.Content.model_validate_json(dumps(content))  # bytes are base64 in JSON only
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"])) or "the value"
        raise BadInput(
            f"Content {number}: {path}: {first['msg']}.",
            hint="Correct it: the fields are those of google.genai.types.Content.",
        ) from error


def restore_unchanged(value: Any, shown: Any, original: Any) -> Any:
    """Return an edited value in which everything that is as it was shown has its original value.

    What was shown has no credentials: an edit of something else keeps them. They go with the object that has them,
    when a person removes or empties that.
    """
    if isinstance(value, dict) and isinstance(shown, Mapping) and isinstance(original, Mapping):
        return _restore_object(value, shown, original)
    if dumps(value) == dumps(shown):
        return original
    if isinstance(value, list) and isinstance(shown, list) and isinstance(original, list | tuple):
        return _restore_list(value, shown, original)
    return value


def _restore_object(
    value: dict[str, Any], shown: Mapping[str, Any], original: Mapping[str, Any]
) -> dict[str, Any]:
    is_emptied = bool(shown) and shown.keys().isdisjoint(value)
    hidden = {} if is_emptied else {name: item for name, item in original.items() if name not in shown}
    return hidden | {
        name: restore_unchanged(item, shown[name], original.get(name)) if name in shown else item
        for name, item in value.items()
    }


def _restore_list(value: list[Any], shown: list[Any], original: Sequence[Any]) -> list[Any]:
    """Return the items of an edited list. One that equals none as it was shown is an edit of that at its position."""
    indexes = match_items(value, shown)
    edited = set(range(min(len(value), len(shown)))).difference(indexes, indexes.values())
    indexes |= {number: number for number in edited}
    return [
        restore_unchanged(item, shown[indexes[number]], original[indexes[number]])
        if number in indexes
        else item
        for number, item in enumerate(value)
    ]


def match_items(value: Sequence[Any], shown: Sequence[Any]) -> dict[int, int]:
    """Return the indexes of shown items by the indexes of the equal items of an edited list.

    Equal items are told apart by their positions, from the beginning and from the end, then by their order; a copy is
    the last of them. Takes linear time.
    """
    new, old = [dumps(item) for item in value], [dumps(item) for item in shown]
    matches = _match_positions(new, old)
    free_indexes: dict[str, deque[int]] = defaultdict(deque)
    for index in sorted(set(range(len(old))).difference(matches.values())):
        free_indexes[old[index]].append(index)
    last_indexes = {text: index for index, text in enumerate(old)}
    for number, text in enumerate(new):
        if number not in matches and text in last_indexes:
            matches[number] = free_indexes[text].popleft() if free_indexes[text] else last_indexes[text]
    return matches


def _match_positions(new: Sequence[str], old: Sequence[str]) -> dict[int, int]:
    if len(new) == len(old):
        return {number: number for number, text in enumerate(new) if text == old[number]}
    same_first = _count_same(new, old)
    same_last = min(_count_same(new[::-1], old[::-1]), min(len(new), len(old)) - same_first)
    first = {number: number for number in range(same_first)}
    return first | {len(new) - number: len(old) - number for number in range(1, same_last + 1)}


def _count_same(texts: Sequence[str], others: Sequence[str]) -> int:
    """Return how many texts at the beginning are the same."""
    pairs = zip(texts, others, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _model_call_key(context: CallbackContext) -> CallKey:
    return context.invocation_id, context.agent_name, context.branch or ""


def _describe_change(subject: str, decision: Decision) -> dict[str, Any]:
    """Return the mark of an event: what a person changed, and who."""
    return {"what": subject, "by": decision.person}


def _describe_request(shown: dict[str, Any], state: dict[str, Any]) -> PauseContent:
    content: PauseContent = {
        "tools": [shorten(tool["name"]) for tool in shown["tools"] if isinstance(tool.get("name"), str)],
        "state": _describe_state(state),
    }
    instruction = shown["system_instruction"]
    if isinstance(instruction, str | None) and len(instruction or "") <= MAX_CONTENT:
        content["system_instruction"] = instruction or ""
    if pauses.has_editable_length(shown["contents"]):
        content["contents"] = shown["contents"]
    else:
        content["cut"] = dumps(shown["contents"])[:MAX_CUT]
    return content


def _describe_call(args: dict[str, Any], schema: dict[str, Any], state: dict[str, Any]) -> PauseContent:
    content: PauseContent = {"schema": schema, "state": _describe_state(state)}
    if pauses.has_editable_length(args):
        content["args"] = args
    else:
        content["cut"] = dumps(args)[:MAX_CUT]
    return content


def _describe_state(state: dict[str, Any]) -> dict[str, Any]:
    values = redact(to_jsonable(dict(sorted(state.items(), key=lambda item: str(item[0]))[:MAX_STATE_KEYS])))
    return {key: _cut_value(value) for key, value in values.items()}


def _cut_value(value: Any) -> Any:
    return value if len(dumps(value)) <= MAX_STATE_VALUE else shorten(value, MAX_STATE_VALUE)


def _read_parameters(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments; empty if it has none, or one that is too large to be stored."""
    try:
        declaration = get_declaration(tool)
        schema = to_jsonable(read_schema(declaration)) if declaration else {}
    except Exception:  # a toolset of the agent; the model got the declaration all the same
        return {}
    return schema if isinstance(schema, dict) and len(dumps(schema)) <= MAX_CONTENT else {}
