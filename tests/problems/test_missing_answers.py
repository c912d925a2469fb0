"""Runs and imported sessions that end without an answer, and those that rightly end without text."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sessions_app.problems import session_checks
from sessions_app.runs import lifecycle
from sessions_app.search import indexing as search_indexing
from sessions_app.store.models import Run, SessionProblem
from tests.fake_models import ScriptedModel, call
from tests.problems.agent_runs import codes_of, converse, find_problems


class ResponseModel(ScriptedModel):
    """Yields the responses of each turn as they are."""

    async def generate_content_async(self, llm_request, stream=False):
        """Yield the responses of the next turn."""
        turn = self.turns[self._said]
        self._said += 1
        for response in turn:
            yield response


def reply(*parts: str | types.Part, **fields: Any) -> LlmResponse:
    content = types.Content(
        role="model", parts=[types.Part(text=each) if isinstance(each, str) else each for each in parts]
    )
    return LlmResponse(content=content, **fields)


def thought(text: str) -> types.Part:
    return types.Part(text=text, thought=True)


def responding(*turns: list[LlmResponse]) -> ResponseModel:
    return ResponseModel(turns=list(turns))


def look(city: str = "") -> dict[str, Any]:
    """Look at the weather."""
    return {"weather": "sunny"}


EMPTY_TURNS = {
    "only partial responses": [reply("Sun", partial=True), reply("ny.", partial=True)],
    "turn_complete only": [LlmResponse(turn_complete=True)],
    "no response at all": [],
    "no parts": [reply()],
    "empty text": [reply("")],
    "blank text": [reply(" \n")],
    "only a thought": [reply(thought("They want the weather."))],
    "a thought and an empty text": [reply(thought("Hm."), "")],
    "empty code": [reply(types.Part(executable_code=types.ExecutableCode(code=" ", language="PYTHON")))],
    "an empty image": [reply(types.Part(inline_data=types.Blob(data=b"", mime_type="image/png")))],
}


@pytest.mark.parametrize("name", EMPTY_TURNS)
@pytest.mark.parametrize("has_call", [False, True])
async def test_run_that_ends_without_an_answer(store, name, has_call):
    turns = [[reply(call("look", city="Rome"))]] if has_call else []
    session = await converse(
        model=responding(*turns, EMPTY_TURNS[name]), tools=[look] if has_call else [], name="reporter"
    )
    [problem] = await find_problems(session)
    assert (problem.code, problem.severity, problem.agent) == ("no-answer", "warning", "reporter")
    assert "request" in [kind for kind, _, _ in json.loads(problem.links)]
    assert ("only partial responses" in problem.text) is (name == "only partial responses")


async def test_last_of_several_agents_without_an_answer(store):
    agents = [
        LlmAgent(name="writer", model=responding([reply("A draft.")])),
        LlmAgent(name="editor", model=responding([reply("The fi", partial=True)])),
    ]
    [problem] = await find_problems(await converse(root=SequentialAgent(name="team", sub_agents=agents)))
    assert (problem.code, problem.agent) == ("no-answer", "editor")


async def test_reply_that_is_missing_before_the_answer_is_no_problem(store):
    agents = [
        LlmAgent(name="editor", model=responding([reply("The fi", partial=True)])),
        LlmAgent(name="writer", model=responding([reply("Done.")])),
    ]
    assert await codes_of(await converse(root=SequentialAgent(name="team", sub_agents=agents))) == []


async def test_reply_that_is_missing_inside_a_nested_run_is_no_problem(store):
    inner = LlmAgent(name="inner", description="Helps.", model=responding([reply("The fi", partial=True)]))
    session = await converse([call("inner", request="x")], "Done.", tools=[AgentTool(inner)])
    assert await codes_of(session) == []


async def test_streamed_answer_is_an_answer(store):
    turn = [reply("Sun", partial=True), reply("Sunny."), reply("")]
    session = await converse(
        model=responding(turn), run_config=RunConfig(streaming_mode=StreamingMode.SSE), name="reporter"
    )
    assert await codes_of(session) == []


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        ([LlmResponse(error_code="MAX_TOKENS", error_message="cut")], "cut-answer"),
        ([LlmResponse(error_code="500", error_message="INTERNAL")], "model-error"),
        ([reply("", finish_reason=types.FinishReason.SAFETY)], "safety-block"),
    ],
)
async def test_empty_reply_with_another_problem_is_reported_once(store, turn, code):
    assert await codes_of(await converse(model=responding(turn))) == [code]


class Counter(BaseAgent):
    """Says nothing, and stores a number."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        yield Event(
            author=self.name, invocation_id=ctx.invocation_id, actions=EventActions(state_delta={"n": 1})
        )


def give_up(callback_context: Any) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text="I have no answer.")])


def ask() -> None:
    """Ask a person."""


def silent_result(tool_context: ToolContext) -> str:
    """Show a map."""
    tool_context.actions.skip_summarization = True
    return "shown"


RIGHT_ENDS: dict[str, Any] = {
    "custom agent": lambda: converse(root=Counter(name="counter")),
    "custom agent after an answer": lambda: converse(
        root=SequentialAgent(
            name="team",
            sub_agents=[LlmAgent(name="writer", model=responding([reply("Yes.")])), Counter(name="counter")],
        )
    ),
    "exit_loop": lambda: converse(
        root=LoopAgent(
            name="loop",
            sub_agents=[LlmAgent(name="a", model=responding([reply(call("exit_loop"))]), tools=[exit_loop])],
        )
    ),
    "skip_summarization": lambda: converse([call("silent_result")], tools=[silent_result]),
    "question": lambda: converse([call("ask")], tools=[LongRunningFunctionTool(ask)]),
    "answer of a callback": lambda: converse(
        model=responding([LlmResponse(turn_complete=True)]), after_agent_callback=give_up
    ),
}


@pytest.mark.parametrize("name", RIGHT_ENDS)
async def test_run_that_rightly_ends_without_text(store, name):
    assert "no-answer" not in await codes_of(await RIGHT_ENDS[name]())


def index() -> list[str]:
    search_indexing.index_all()
    session_checks.check_all()
    return list(SessionProblem.objects.order_by("pk").values_list("code", flat=True))


SILENT_EVENTS = [
    {"content": {"role": "model", "parts": []}, "finishReason": "STOP"},
    {"content": {"role": "model", "parts": [{"text": ""}]}},
    {"content": {"role": "model", "parts": [{"text": "Let me think.", "thought": True}]}},
    {"finishReason": "STOP", "usageMetadata": {"promptTokenCount": 10}},
]


@pytest.mark.parametrize("fields", SILENT_EVENTS)
def test_imported_session_that_ends_without_an_answer(story, fields):
    story.asks("Write code.")
    story.calls("look", "c1")
    story.answers("look", "c1")
    story.add(**fields)
    assert index() == ["no-answer"]
    story.says("Here it is.")
    assert index() == []


def test_empty_event_of_the_agent_that_has_answered_is_no_problem(story):
    story.asks("Write code.")
    story.says("Here it is.")
    story.says("Another agent.", author="other")
    story.add(**SILENT_EVENTS[0])
    assert index() == []


@pytest.mark.parametrize(
    "fields",
    [{"turnComplete": True}, {"usageMetadata": {"promptTokenCount": 1}}, {"delta": {"n": 1}}, {}],
)
def test_event_that_is_no_reply_is_no_problem(story, fields):
    story.asks("Write code.")
    story.add(**fields)
    assert index() == []


@pytest.mark.parametrize("status", [Run.Status.WAITING, Run.Status.FAILED, Run.Status.CANCELLED])
def test_only_a_run_that_is_done_lacks_an_answer(story, status):
    story.asks("Write code.")
    story.add(**SILENT_EVENTS[0])
    Run.objects.create(
        id="r1", session_id=story.pk, status=Run.Status.RUNNING, invocation_id="i1", created_at=time.time()
    )
    assert "no-answer" not in index()
    lifecycle.finish("r1", status)
    assert "no-answer" not in index()
    Run.objects.update(status=Run.Status.RUNNING)
    lifecycle.finish("r1", Run.Status.DONE)
    assert index() == ["no-answer"]


def test_session_that_waits_for_an_answer_is_no_problem(story):
    story.asks("Book it.")
    story.calls("ask", "q1", waiting=True)
    assert index() == []
