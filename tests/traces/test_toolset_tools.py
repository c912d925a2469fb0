"""Tools of toolsets on the agent page, as last seen in a model request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool

from devui.runtime.agent_description import describe
from sessions_app.agents import cards
from sessions_app.agents.page.description import Node, prepare_description
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from sessions_app.store.traces.outbox import outbox
from sessions_app.traces.toolset_tools import add_seen_tools
from tests.fake_models import ScriptedModel, call
from tests.pages.html import parse
from tests.sessions.build import APP


def bake(bread: str) -> str:
    """Bake bread."""
    return bread


def taste(dish: str) -> str:
    """Taste a dish."""
    return dish


def order(dish: str) -> str:
    """Order a dish."""
    return dish


class Kitchen(BaseToolset):
    """A toolset that lists functions when it runs."""

    def __init__(
        self, *functions: Any, prefix: str | None = None, error: Exception | None = None, url: str = ""
    ) -> None:
        super().__init__(tool_name_prefix=prefix)
        self.functions, self.error = functions, error
        if url:
            self.connection_params = SimpleNamespace(url=url)

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        if self.error:
            raise self.error
        return [FunctionTool(function) for function in self.functions]


class Cellar(Kitchen):
    """Another toolset."""


def cook(*tools: Any, name: str = "cook", turns: tuple[Any, ...] = ("done",)) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel.saying(*turns), tools=list(tools))


async def seen_after_run(ask: Any, agent: LlmAgent) -> Node:
    """Run an agent once, and return its prepared description with the tools that were seen."""
    await ask(agent)
    await outbox().wait_written()

    def read() -> Node:
        tree = prepare_description(describe(agent, None, APP))
        add_seen_tools(tree, list(AgentSession.objects.all()))
        return tree

    return await units_of_work.read(read)


def names(tool_list: Any) -> list[str]:
    return [tool["name"] for tool in tool_list.tools]


async def test_tools_of_one_toolset_are_those_that_the_agent_does_not_name(ask):
    tree = await seen_after_run(ask, cook(order, Kitchen(bake, taste)))
    [named, toolset] = tree["tools"]
    assert "seen" not in named
    assert names(toolset["seen"]) == ["bake", "taste"]
    [tool, _] = toolset["seen"].tools
    assert tool["description"] == "Bake bread."
    assert list(tool["schema"]["properties"]) == ["bread"]


async def test_prefix_tells_toolsets_apart(ask):
    tree = await seen_after_run(ask, cook(Kitchen(bake, prefix="oven"), Cellar(taste)))
    assert [names(tool["seen"]) for tool in tree["tools"]] == [["oven_bake"], ["taste"]]


async def test_tools_that_several_toolsets_could_have_are_shown_at_the_agent(ask):
    tree = await seen_after_run(ask, cook(Kitchen(bake), Cellar(taste)))
    assert [tool["seen"] for tool in tree["tools"]] == [None, None]
    assert names(tree["seen"]) == ["bake", "taste"]


async def test_toolset_that_failed_to_load_shows_its_error(ask):
    tree = await seen_after_run(ask, cook(Kitchen(bake), Cellar(error=ConnectionError("no cellar"))))
    [kitchen, cellar] = [tool["seen"] for tool in tree["tools"]]
    assert (names(kitchen), kitchen.failures) == (["bake"], [])
    assert (names(cellar), cellar.failures) == ([], ["Cellar of agent cook: no cellar"])


async def test_failed_toolset_is_told_by_its_server_from_another_of_its_class(ask):
    dead = Kitchen(error=ConnectionError("refused"), url="http://dead.example/mcp?key=s3cret")
    tree = await seen_after_run(ask, cook(Kitchen(bake, url="http://live.example/mcp"), dead))
    [kitchen, failed] = [tool["seen"] for tool in tree["tools"]]
    assert (names(kitchen), kitchen.failures) == (["bake"], [])
    assert failed.failures == ["Kitchen (http://dead.example/mcp) of agent cook: refused"]


async def test_toolset_of_a_nested_agent_is_seen(ask):
    inner = cook(Kitchen(bake))
    tree = await seen_after_run(
        ask, cook(AgentTool(inner), name="chef", turns=(call("cook", request="x"), "done"))
    )
    assert names(tree["tools"][0]["agent"]["tools"][0]["seen"]) == ["bake"]


async def test_agent_that_never_ran_has_no_seen_tools():
    tree = prepare_description(describe(cook(Kitchen(bake)), None, APP))
    add_seen_tools(tree, [])
    assert "seen" not in tree["tools"][0]


async def test_seen_tools_cost_a_bounded_number_of_queries(ask, django_assert_max_num_queries):
    agent = cook(Kitchen(bake), Cellar(taste))
    await ask(agent)
    await outbox().wait_written()

    def read() -> None:
        tree = prepare_description(describe(agent, None, APP))
        sessions = list(AgentSession.objects.all())
        with django_assert_max_num_queries(6):
            add_seen_tools(tree, sessions)

    await units_of_work.read(read)


async def test_agent_page_lists_the_tools_of_a_toolset(ask, async_client):
    agent = cook(order, Kitchen(bake, taste), Cellar(prefix="wine"))
    await ask(agent)
    await outbox().wait_written()
    await units_of_work.write(lambda: cards.save_loaded(APP, "v1", describe(agent, None, APP)))
    page = parse((await async_client.get(f"/agents/{APP}/")).content)
    text = " ".join(page.one("div", css="agent-page").text.split())
    assert "2 tools in the newest model request" in text
    assert "Bake bread." in text
    assert "None of its tools is in a recorded model request" in text
