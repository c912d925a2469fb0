"""Tool calls of one event that overwrite each other's state."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext

from tests.fake_models import ScriptedModel, call
from tests.problems.agent_runs import codes_of, converse, find_problems


async def remember(item: str, tool_context: ToolContext) -> str:
    """Remember an item."""
    items = tool_context.state.get("items", [])
    await asyncio.sleep(0)
    tool_context.state["items"] = [*items, item]
    return "ok"


def writing(value: Any, name: str, *, waits: bool = True) -> Any:
    async def write(tool_context: ToolContext) -> str:
        """Write."""
        await asyncio.sleep(0)
        tool_context.state["report"] = value
        return "ok"

    def write_at_once(tool_context: ToolContext) -> str:
        """Write."""
        tool_context.state["report"] = value
        return "ok"

    tool = write if waits else write_at_once
    tool.__name__ = name
    return tool


async def test_calls_that_lose_each_others_values(store):
    calls = [call("remember", item=item) for item in ("milk", "eggs", "tea")]
    session = await converse(calls, "Stored three.", tools=[remember])
    [problem] = await find_problems(session)
    assert (problem.code, problem.severity, problem.seq) == ("lost-write", "warning", 3)
    assert problem.text == (
        'items: remember wrote ["milk"], remember wrote ["eggs"], remember wrote ["tea"]; kept ["tea"].'
    )
    assert [kind for kind, _, _ in json.loads(problem.links)] == ["event", "trace"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("sunny", "rainy"),
        ({"a": "x"}, {"a": "y"}),
        (True, False),
        ("x", None),
        ([1], {"a": 1}),
        ([1, 2], [2]),
        (["a", "a"], ["a"]),
        ([{"a": 1}, {"a": 1}], [{"b": 2}, {"a": 1}]),
        (5, "done"),
        (5, True),
    ],
)
async def test_tools_that_run_at_once_and_write_one_key(store, first, second):
    tools = [writing(first, "one"), writing(second, "two")]
    session = await converse([call("one"), call("two")], "Done.", tools=tools)
    assert await codes_of(session) == ["lost-write"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("same", "same"),
        ({"a": 1}, {"b": 2}),
        ([1], [1, 2]),
        (1, 2),
        ("sun", "sunny"),
        ({"a": 1}, {"a": 2}),
        (["a", "a"], ["b", "a", "a"]),
    ],
)
async def test_value_that_has_both_writes_is_no_problem(store, first, second):
    tools = [writing(first, "one"), writing(second, "two")]
    session = await converse([call("one"), call("two")], "Done.", tools=tools)
    assert await codes_of(session) == []


async def test_tools_that_do_not_wait_run_one_after_the_other(store):
    tools = [writing("sunny", "one", waits=False), writing("rainy", "two", waits=False)]
    session = await converse([call("one"), call("two")], "Done.", tools=tools)
    assert await codes_of(session) == []


async def test_agents_as_tools_that_overwrite_one_output_key(store):
    agents = [
        LlmAgent(name=name, model=ScriptedModel.saying(f"{name} says"), output_key="report")
        for name in ("one", "two")
    ]
    calls = [call(agent.name, request="go") for agent in agents]
    session = await converse(calls, "Done.", tools=[AgentTool(agent) for agent in agents])
    problems = {each.code: each for each in await find_problems(session)}
    assert "one says" in problems["lost-write"].text


async def test_write_of_a_later_call_is_no_problem(store):
    tools = [writing("sunny", "one"), writing("rainy", "two")]
    assert await codes_of(await converse([call("one")], [call("two")], "Done.", tools=tools)) == []


async def test_many_calls_are_described_briefly(store):
    calls = [call("remember", item="x" * 100 + str(number)) for number in range(9)]
    [problem] = await find_problems(await converse(calls, "Stored.", tools=[remember]))
    assert "and 5 more; kept [" in problem.text


async def test_overwritten_credentials_are_not_shown(store):
    async def sign_in(secret: str, tool_context: ToolContext) -> str:
        """Sign in."""
        await asyncio.sleep(0)
        tool_context.state["login"] = {"api_key": f"hidden-{secret}"}
        return "ok"

    calls = [call("sign_in", secret="first"), call("sign_in", secret="second")]
    [problem] = await find_problems(await converse(calls, "Done.", tools=[sign_in]))
    assert problem.code == "lost-write"
    assert "hidden-" not in problem.text
