"""Playground runs of this process: each calls models with requests that a person has changed, and nothing else.

Tools are declared and not executed, and no session is written. The web process cancels an answer by the status of its
row, which the run reads while it makes its calls.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from pydantic import BaseModel, ValidationError

from devui.runtime.exception_text import safe_message
from devui.runtime.runs import MAX_MESSAGE
from evals_app.models import PlaygroundAnswer
from evals_app.playground import runs
from evals_app.playground.columns import RequestColumn, read_columns
from evals_app.playground.runs import Status
from sessions_app.adk.model_calls import join_partials, response_json, token_usage
from sessions_app.runs.background import BackgroundTasks
from sessions_app.store import scopes
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import truncate

MAX_CALLS_AT_ONCE = 8
"""Calls of a run that are made at once; the others wait."""

CALL_TIMEOUT_S = 600.0
"""Longest time in seconds that a call may take."""

SYNC_INTERVAL_S = 0.5
"""Seconds after which a run stores what was streamed, and asks which answers were cancelled."""

KEY_VARIABLES = {
    "Gemini": (
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_GENAI_USE_ENTERPRISE",
    ),
    "AnthropicLlm": ("ANTHROPIC_API_KEY",),
    "Claude": ("GOOGLE_CLOUD_PROJECT",),
}
"""By class of a model: the variables of which its client needs one. Errors of other clients name their variable."""

log = logging.getLogger(__name__)


class PlaygroundCheck(BaseModel):
    """Body of `POST /devui/playground/check`: the agent whose call was recorded, and the columns to check."""

    agent: str
    columns: list[dict[str, Any]]


class PlaygroundRuns:
    """The active playground runs of this process."""

    def __init__(self, runtime_id: str, on_left: Callable[[], None]) -> None:
        self._runtime_id = runtime_id
        self._on_left = on_left
        self._tasks = BackgroundTasks()

    def __len__(self) -> int:
        """Return the number of active runs."""
        return len(self._tasks)

    async def start(self, run_pk: int, root: Any) -> None:
        """Make the calls of a run in the background. A run that a process has taken already is left alone.

        Args:
            root: the root agent or node of the app.
        """
        run = await units_of_work.write(runs.assign_run, run_pk, self._runtime_id)
        if run is None:
            return
        answers = await units_of_work.read(lambda: list(run.answers.order_by("repetition", "column")))
        execution = PlaygroundExecution(run_pk, read_columns(run.columns), run.call.agent, root)
        self._tasks.start(execution.make_calls(answers)).add_done_callback(lambda _: self._on_left())

    async def cancel_all(self) -> None:
        """Stop every run before the process ends; the rows of its answers fail."""
        await self._tasks.cancel()


class PlaygroundExecution:
    """The calls of one run. `_streamed` has the partial responses of each running answer by its primary key."""

    def __init__(self, run_pk: int, columns: list[RequestColumn], agent: str, root: Any) -> None:
        self._run_pk = run_pk
        self._columns = columns
        self._agent = agent
        self._root = root
        self._streamed: dict[int, list[LlmResponse]] = {}
        self._first_at: dict[int, float] = {}
        self._limit = asyncio.Semaphore(MAX_CALLS_AT_ONCE)

    async def make_calls(self, answers: list[PlaygroundAnswer]) -> None:
        """Make all calls, and cancel those whose rows are not active any more."""
        tasks = {answer.pk: asyncio.create_task(self._record_answer(answer)) for answer in answers}
        try:
            while any(not task.done() for task in tasks.values()):
                await asyncio.wait(tasks.values(), timeout=SYNC_INTERVAL_S)
                active = await retry.write(runs.update_answers, self._run_pk, self._partial_values())
                for pk, task in tasks.items():
                    if pk not in active:
                        task.cancel()
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            await units_of_work.write(
                runs.fail_answers, self._run_pk, runs.PROCESS_ENDED_TYPE, runs.PROCESS_ENDED_MESSAGE
            )

    async def _record_answer(self, answer: PlaygroundAnswer) -> None:
        """Make the call of an answer, and store how it ended. An answer that was cancelled while queued is skipped."""
        async with self._limit:
            if not await retry.write(runs.start_answer, answer.pk):
                return
            column = self._columns[answer.column]
            self._streamed[answer.pk] = []
            values: dict[str, Any] = {}
            status = Status.DONE
            try:
                model = find_model(self._root, self._agent, column.model)
                values = await self._call_model_in_time(answer.pk, model, column)
            except Exception as error:
                status = Status.FAILED
                values = self._partial_values().get(answer.pk, {}) | _describe_error(error, column.model)
            finally:
                self._streamed.pop(answer.pk)
            if (first_at := self._first_at.get(answer.pk)) is not None:
                values["first_at"] = first_at
            await retry.write(runs.finish_answer, answer.pk, status, values)

    async def _call_model_in_time(self, pk: int, model: BaseLlm, column: RequestColumn) -> dict[str, Any]:
        """Call a model as `_call_model` does.

        Raises:
            TimeoutError: the call took longer than `CALL_TIMEOUT_S`; the message says so, unlike that of a model's own.
        """
        timeout = asyncio.timeout(CALL_TIMEOUT_S)
        try:
            async with timeout:
                return await self._call_model(pk, model, column)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise TimeoutError(f"The model did not answer within {CALL_TIMEOUT_S:g} s.") from error

    async def _call_model(self, pk: int, model: BaseLlm, column: RequestColumn) -> dict[str, Any]:
        """Call a model once, and return the values to store of its answer."""
        request = build_request(column, find_agent(self._root, self._agent))
        responses: list[LlmResponse] = []
        async with aclosing(model.generate_content_async(request, stream=True)) as stream:
            async for response in stream:
                self._first_at.setdefault(pk, time.time())
                (self._streamed[pk] if response.partial else responses).append(response)
        partials = self._streamed[pk]
        complete = [response_json(response) for response in responses]
        stored = complete or ([partial_json(partials)] if partials else [])
        return {"response": scopes.dumps(stored), **token_usage(responses or partials)}

    def _partial_values(self) -> dict[int, dict[str, Any]]:
        """Return the values to store of answers that have streamed something, by primary key."""
        return {
            pk: {"response": scopes.dumps([partial_json(partials)])}
            for pk, partials in self._streamed.items()
            if partials
        }


def find_problems(root: Any, check: PlaygroundCheck) -> list[str]:
    """Return for each column, in order, a sentence that says why it cannot be sent; empty if it can.

    Args:
        root: the root agent or node of the app.
        check: the columns, and the name of the agent whose call was recorded.
    """
    return [_find_problem(root, check.agent, RequestColumn(**column)) for column in check.columns]


def _find_problem(root: Any, agent_name: str, column: RequestColumn) -> str:
    try:
        build_request(column, find_agent(root, agent_name))
        find_model(root, agent_name, column.model)
    except BadInput as error:
        return f"{error.message} {error.hint}".strip()
    return ""


def build_request(column: RequestColumn, agent: LlmAgent | None) -> LlmRequest:
    """Return ADK's request of a column.

    Args:
        column: what to send.
        agent: the agent whose call was recorded, for its connection options, which are not recorded.

    Raises:
        BadInput: a value is not what ADK's classes accept; the message names the field and the rule.
    """
    config = _validate("Generation config", types.GenerateContentConfig, column.config)
    if config.http_options is not None:  # an address in it would get the key of the model
        raise BadInput(
            "Generation config: http_options: it cannot be changed here.",
            hint="Remove it: those of the agent are used.",
        )
    for name in ("system_instruction", "tools"):
        if getattr(config, name) is not None:
            raise BadInput(
                f"Generation config: {name}: it has an input of its own.", hint="Move the value there."
            )
    tools = [_build_tool(number, tool) for number, tool in enumerate(column.tools, 1)]
    functions = [tool for tool in tools if isinstance(tool, types.FunctionDeclaration)]
    others = [tool for tool in tools if isinstance(tool, types.Tool)]
    config.tools = [*([types.Tool(function_declarations=functions)] if functions else []), *others] or None
    config.system_instruction = column.system_instruction or None
    if agent is not None and agent.generate_content_config is not None:
        config.http_options = agent.generate_content_config.http_options
    contents = [
        _validate(f"Content {number}", types.Content, content)
        for number, content in enumerate(column.contents, 1)
    ]
    return LlmRequest(model=column.model, contents=contents, config=config)


def _build_tool(number: int, tool: dict[str, Any]) -> types.FunctionDeclaration | types.Tool:
    """Return a function declaration, or a tool that the model brings with it, such as Google Search."""
    name = tool.get("name")
    declared: types.FunctionDeclaration | types.Tool = _validate(
        f"Tool {name or number}", types.FunctionDeclaration if name else types.Tool, tool
    )
    return declared


def _validate(subject: str, model_class: type[Any], value: Any) -> Any:
    try:
        return model_class.model_validate_json(scopes.dumps(value))  # bytes are base64 in JSON only
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"])) or "the value"
        raise BadInput(
            f"{subject}: {path}: {first['msg']}.",
            hint=f"Correct it: the fields are those of google.genai.types.{model_class.__name__}.",
        ) from error


def find_agent(root: Any, name: str) -> LlmAgent | None:
    """Return the LLM agent with this name below a root or used as a tool there; None if there is none."""
    return next((agent for agent in _iter_llm_agents(root, set()) if agent.name == name), None)


def _iter_llm_agents(agent: Any, seen: set[int]) -> Iterator[LlmAgent]:
    if not isinstance(agent, BaseAgent) or id(agent) in seen:
        return
    seen.add(id(agent))
    if isinstance(agent, LlmAgent):
        yield agent
        for tool in agent.tools:
            if isinstance(tool, AgentTool):
                yield from _iter_llm_agents(tool.agent, seen)
    for sub_agent in agent.sub_agents:
        yield from _iter_llm_agents(sub_agent, seen)


def find_model(root: Any, agent_name: str, model_name: str) -> BaseLlm:
    """Return the agent's model object if its name is `model_name`, else a new one from ADK's registry.

    Raises:
        BadInput: the registry has no class for the model, or the class cannot be loaded.
    """
    agent = find_agent(root, agent_name)
    if agent is not None and agent.canonical_model.model == model_name:
        return agent.canonical_model
    try:
        return LLMRegistry.new_llm(model_name)
    except Exception as error:
        raise BadInput(
            f"Model: {' '.join(safe_message(error).split())}",
            hint="Name a model that ADK knows, or register its class in the agent's code.",
        ) from error


def _describe_error(error: Exception, model_name: str) -> dict[str, Any]:
    """Return the values to store of an error; they name the variable of a missing key, as clients of models do not."""
    message = safe_message(error)
    if (missing := _missing_variable(model_name)) and "key" in message.lower():
        message = (
            f"{missing} is not set where the agent runs: add it to the .env file of the agent. {message}"
        )
    return {"error_type": type(error).__name__, "error": truncate(message, MAX_MESSAGE)}


def _missing_variable(model_name: str) -> str:
    """Return the first variable that the client of a model accepts, if none of them is set; otherwise empty."""
    try:
        names = [base.__name__ for base in LLMRegistry.resolve(model_name).__mro__]
    except Exception:  # a model object of the agent, whose name no class has
        return ""
    variables = next((KEY_VARIABLES[name] for name in names if name in KEY_VARIABLES), ())
    return "" if any(os.environ.get(variable) for variable in variables) else next(iter(variables), "")


def partial_json(partials: list[LlmResponse]) -> dict[str, Any]:
    """Return the text so far in the form in which the recorder stores an answer that broke off."""
    return {**response_json(LlmResponse(content=join_partials(partials))), "partial": True}
