"""Problems of tools inside nested runs (`AgentTool`)."""

from __future__ import annotations

import json
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool

from sessions_app.problems.problem_queries import ShownProblem
from tests.fake_models import ScriptedModel, call
from tests.problems.agent_runs import codes_of, converse, find_problems


def look(at: str) -> dict[str, Any]:
    """Look at something."""
    return {"error": "The lamp is out."} if at == "cellar" else {"saw": at}


def helper(at: str) -> AgentTool:
    """Return an agent as a tool, which calls another one, which looks at something."""
    deepest = LlmAgent(name="deep", model=ScriptedModel.saying(call("look", at=at), "ok"), tools=[look])
    model = ScriptedModel.saying(call("deep", request="look"), "ok")
    return AgentTool(LlmAgent(name="helper", model=model, tools=[AgentTool(deepest)]))


async def test_failed_tool_of_a_nested_agent_is_a_problem_at_the_sessions_call(store):
    session = await converse(call("helper", request="x"), "done", tools=[helper("cellar")])
    [problem] = [each for each in await find_problems(session) if each.code == "tool-error"]
    assert (problem.agent, problem.seq) == ("deep", 2)
    assert json.loads(problem.links)[0] == ["nested", 2, "inside agent deep"]
    assert not ShownProblem(problem).repeats_error
    assert "look answered with an error in its result: The lamp is out." in problem.text


async def test_tool_of_a_nested_agent_that_succeeds_is_no_problem(store):
    session = await converse(call("helper", request="x"), "done", tools=[helper("attic")])
    assert "tool-error" not in await codes_of(session)
