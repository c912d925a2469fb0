"""Preview of the model request at an event: instructions filled in, contents, declared tools.

ADK's own request processors build it from the events up to that point and the state at that time. Nothing is run:
instruction providers and toolsets, which are the agent's code, are called only on request.
"""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.agents.run_config import RunConfig
from google.adk.flows.llm_flows import agent_transfer, contents, identity
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.utils.instructions_utils import inject_session_state
from pydantic import BaseModel

from devui.runtime import _adk
from devui.runtime.agent_description import content_union_text
from devui.runtime.historical_artifacts import HistoricalArtifactService
from sessions_app.store import scopes
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.redaction import redact
from sessions_app.store.short_texts import truncate

PROVIDER_TIMEOUT_S = 10.0
"""Seconds that an instruction provider or a toolset has to answer."""

PROCESSORS = (identity.request_processor, agent_transfer.request_processor, contents.request_processor)
"""ADK's processors of a request in its order: identity, agents to transfer to, contents."""

MAX_CONTENTS = 200
"""Most contents in the response; the last ones are kept."""

MAX_TEXT = 20_000
"""Most characters of a value or a text in the response."""


class PreviewRequest(BaseModel):
    """Body of `POST /devui/seen`.

    Attributes:
        event_id: the last event in the request; empty: none.
        state: the session's merged state at that event, without credentials.
        agent: the agent whose model is called; empty: the root agent.
        calls_code: also call instruction providers and toolsets, which runs the agent's code.
    """

    realm: str = ""
    user_id: str
    session_id: str
    event_id: str = ""
    invocation_id: str = ""
    branch: str = ""
    state: dict[str, Any] = {}
    agent: str = ""
    calls_code: bool = False


async def preview_model(runner: Runner, request: PreviewRequest) -> dict[str, Any]:
    """Return agent, model, instructions, identity, the last contents, their count, and tools.

    An instruction has kind, pieces [{text} or {key, placeholder, value, optional, missing}] and, if a provider makes
    it, its name as `provider`, `is_called` (the provider was called) and `error` (why the call failed). `is_content`:
    ADK sends it as a content of the user, because the agent has a static instruction, too.

    Raises:
        NotFound: there is no such session or event.
        BadInput: the agent is not an LLM agent.
    """
    agent = _find_llm_agent(runner, request.agent)
    context = await _build_context(runner, agent, request)
    model = agent.model if isinstance(agent.model, str) else agent.model.model
    llm_request = LlmRequest(model=model)
    instructions = [
        instruction async for instruction in _iter_instructions(agent, context, request.calls_code)
    ]
    for processor in PROCESSORS:
        try:
            async for _ in processor.run_async(context, llm_request):
                pass
        except ValueError as error:  # built-in tools and agents to transfer to exclude each other
            raise BadInput(str(error), hint="ADK would end the run here.") from error
    declarations = [_tool_declaration(tool) for tool in llm_request.tools_dict.values()]
    contents_json = [_to_json(content) for content in llm_request.contents[-MAX_CONTENTS:]]
    return {
        "agent": agent.name,
        "model": model,
        "instructions": instructions,
        "identity": str(llm_request.config.system_instruction or ""),
        "contents": redact(contents_json),
        "count": len(llm_request.contents),
        "tools": declarations + [tool async for tool in _iter_tools(agent, context, request.calls_code)],
    }


def _find_llm_agent(runner: Runner, name: str) -> LlmAgent:
    root = runner.agent
    agent = root.find_agent(name) if name and isinstance(root, BaseAgent) else root
    if not isinstance(agent, LlmAgent):
        raise BadInput(
            f"{name or 'The root agent'} calls no model, or the app has no agent of this name.",
            hint="Choose an event of an LLM agent that the app still has.",
        )
    return agent


async def _build_context(runner: Runner, agent: LlmAgent, request: PreviewRequest) -> InvocationContext:
    stored_session = await runner.session_service.get_session(
        app_name=runner.app_name, user_id=request.user_id, session_id=request.session_id
    )
    if stored_session is None:
        raise NotFound(f"No session {request.session_id!r}.", hint="It may have been deleted.")
    ids = [event.id for event in stored_session.events]
    if request.event_id and request.event_id not in ids:
        raise NotFound(f"The session has no event {request.event_id!r}.", hint="Open the session again.")
    count = ids.index(request.event_id) + 1 if request.event_id else 0
    session = Session(
        id=stored_session.id,
        app_name=stored_session.app_name,
        user_id=stored_session.user_id,
        state=request.state,
        events=stored_session.events[:count],
    )
    return InvocationContext(
        session_service=runner.session_service,
        artifact_service=HistoricalArtifactService(files, stored_session.events, count)
        if (files := runner.artifact_service)
        else None,
        memory_service=runner.memory_service,
        invocation_id=request.invocation_id,
        branch=request.branch or None,
        agent=agent,
        session=session,
        run_config=RunConfig(),
    )


async def _iter_instructions(agent: LlmAgent, context: InvocationContext, calls_code: bool) -> Any:
    root = agent.root_agent
    if isinstance(root, LlmAgent) and root.global_instruction:
        yield await _preview_instruction("global", root.global_instruction, root, context, calls_code)
    if agent.static_instruction:
        text = content_union_text(agent.static_instruction)
        yield {"kind": "static", "pieces": [{"text": truncate(text, MAX_TEXT)}]}
    if agent.instruction:
        instruction = await _preview_instruction("own", agent.instruction, agent, context, calls_code)
        yield instruction | {"is_content": bool(agent.static_instruction)}


async def _preview_instruction(
    kind: str, template: Any, agent: LlmAgent, context: InvocationContext, calls_code: bool
) -> dict[str, Any]:
    if isinstance(template, str):
        return {"kind": kind, "pieces": [piece async for piece in _template_pieces(template, context)]}
    data: dict[str, Any] = {
        "kind": kind,
        "pieces": [],
        "provider": getattr(template, "__name__", type(template).__name__),
        "is_called": calls_code,
    }
    if not calls_code:
        return data
    resolve = agent.canonical_global_instruction if kind == "global" else agent.canonical_instruction
    try:
        text, is_final = await asyncio.wait_for(resolve(ReadonlyContext(context)), PROVIDER_TIMEOUT_S)
    except Exception as error:
        return {**data, "error": truncate(f"{type(error).__name__}: {error}", MAX_TEXT)}
    if is_final:
        return {**data, "pieces": [{"text": truncate(text, MAX_TEXT)}]}
    return {**data, "pieces": [piece async for piece in _template_pieces(text, context)]}


async def _template_pieces(template: str, context: InvocationContext) -> Any:
    """Yield the texts of a template, and between them the values that ADK inserts for its keys."""
    done = 0
    for match in _adk.TEMPLATE_KEY.finditer(template):
        if match.start() > done:
            yield {"text": template[done : match.start()]}
        yield await _fill_key(match.group(), context)
        done = match.end()
    if done < len(template):
        yield {"text": template[done:]}


async def _fill_key(placeholder: str, context: InvocationContext) -> dict[str, Any]:
    name = placeholder.lstrip("{").rstrip("}").strip()
    optional = name.endswith("?")
    key = name.removesuffix("?")
    try:
        value = await inject_session_state(placeholder, ReadonlyContext(context))
    except (KeyError, ValueError):
        return {"key": key, "placeholder": placeholder, "value": "", "optional": optional, "missing": True}
    if value == placeholder:
        return {"text": placeholder}  # not a key by ADK's rules, such as JSON in the instruction
    is_missing = not value and not await _has_empty_value(key, context)
    return {
        "key": key,
        "placeholder": placeholder,
        "value": truncate(value, MAX_TEXT),
        "optional": optional,
        "missing": is_missing,
    }


async def _has_empty_value(key: str, context: InvocationContext) -> bool:
    """Tell whether an optional key that is filled with nothing exists with an empty value."""
    filename = key.removeprefix("artifact.")
    if filename == key or context.artifact_service is None:
        return key in context.session.state
    session = context.session
    artifact = await context.artifact_service.load_artifact(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id, filename=filename
    )
    return artifact is not None


async def _iter_tools(agent: LlmAgent, context: InvocationContext, calls_code: bool) -> Any:
    for tool in agent.tools:
        if isinstance(tool, BaseToolset):
            name = type(tool).__name__
            if not calls_code:
                yield {"name": name, "toolset": True, "is_called": False}
                continue
            try:
                resolving = tool.get_tools_with_prefix(ReadonlyContext(context))
                tools = await asyncio.wait_for(resolving, PROVIDER_TIMEOUT_S)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                yield {"name": name, "toolset": True, "is_called": True, "error": why}
                continue
            for toolset_tool in tools:
                yield _tool_declaration(toolset_tool)
        else:
            yield _tool_declaration(tool if isinstance(tool, BaseTool) else FunctionTool(tool))


def _tool_declaration(tool: BaseTool) -> dict[str, Any]:
    try:
        declaration = _adk.get_declaration(tool)
    except Exception as error:
        return {"name": tool.name, "error": f"{type(error).__name__}: {error}"}
    return _to_json(declaration) if declaration is not None else {"name": tool.name, "by_the_model": True}


def _to_json(value: BaseModel) -> dict[str, Any]:
    dumped: dict[str, Any] = scopes.to_jsonable(
        value.model_dump(mode="json", by_alias=True, exclude_none=True)
    )
    return dumped
