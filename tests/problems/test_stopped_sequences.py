"""Sequences and loops that do not go on after the answer to a question of one of their agents."""

from __future__ import annotations

import json
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.apps.app import ResumabilityConfig
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from sessions_app.store.models import AgentSession
from tests.fake_models import ScriptedModel, call
from tests.problems.agent_runs import codes_of, converse, find_problems


def ask() -> None:
    """Ask a person."""


def asking(name: str, last: str = "Granted.") -> LlmAgent:
    model = ScriptedModel.saying([call("ask", "q1")], last)
    return LlmAgent(name=name, model=model, tools=[LongRunningFunctionTool(ask)])


def speaking(name: str) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel.saying("Go.", "Go.", "Go."))


ANSWER = types.Part(function_response=types.FunctionResponse(id="q1", name="ask", response={"answer": "yes"}))


async def converse_with_answer(root: BaseAgent, **fields: Any) -> AgentSession:
    return await converse(root=root, messages=["go", ANSWER], **fields)


async def test_sequence_that_does_not_go_on_after_an_answer(store):
    root = SequentialAgent(name="team", sub_agents=[asking("first"), speaking("second"), speaking("third")])
    session = await converse_with_answer(root)
    assert not await session.events.filter(author="second").aexists()
    [problem] = await find_problems(session)
    assert (problem.code, problem.severity) == ("stopped-sequence", "warning")
    assert problem.text == (
        "After the answer, first went on without second, third of team: the App is not resumable."
    )
    assert [kind for kind, _, _ in json.loads(problem.links)] == ["event", "trace"]


async def test_loop_and_sequence_around_it_do_not_go_on_after_an_answer(store):
    loop = LoopAgent(name="loop", sub_agents=[asking("first"), speaking("second")], max_iterations=2)
    root = SequentialAgent(name="team", sub_agents=[loop, speaking("third")])
    problems = await find_problems(await converse_with_answer(root))
    assert [each.code for each in problems] == ["stopped-sequence"] * 2
    assert "first went on without second, further rounds of loop" in problems[0].text
    assert "first went on without third of team" in problems[1].text


async def test_sequence_below_an_agent_does_not_go_on_after_an_answer(store):
    team = SequentialAgent(name="team", sub_agents=[asking("first"), speaking("second")])
    model = ScriptedModel.saying([call("transfer_to_agent", agent_name="team")])
    session = await converse_with_answer(LlmAgent(name="root", model=model, sub_agents=[team]))
    assert await codes_of(session) == ["stopped-sequence"]


async def test_sequence_of_a_resumable_app_goes_on(store):
    root = SequentialAgent(name="team", sub_agents=[asking("first"), speaking("second")])
    session = await converse_with_answer(root, resumability=ResumabilityConfig(is_resumable=True))
    assert await codes_of(session) == []


async def test_last_agent_of_a_sequence_and_a_single_agent_may_ask(store):
    root = SequentialAgent(name="team", sub_agents=[speaking("first"), asking("second")])
    session = await converse_with_answer(root)
    assert await codes_of(session) == []
    await session.adelete()
    assert await codes_of(await converse_with_answer(asking("single"))) == []
