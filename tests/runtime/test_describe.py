"""What the agent page is told of an agent."""

from __future__ import annotations

import pytest
from google.adk.agents import LlmAgent, LoopAgent, SequentialAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import LongRunningFunctionTool
from google.adk.tools.base_toolset import BaseToolset

from devui.runtime.describe import describe

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*EXPERIMENTAL:UserWarning")


def look_up(city: str, days: int = 1) -> str:
    """Look up the weather."""
    return city * days


def order(dish: str) -> None:
    """Order something that takes long."""


def greet(callback_context) -> None:
    """Say hello."""


def instruct(context) -> str:
    """Never asked: it would need an invocation."""
    raise AssertionError


class Kitchen(BaseToolset):
    """Never opened: it would start a server."""

    async def get_tools(self, readonly_context=None):
        raise AssertionError

    async def close(self) -> None:
        pass


def test_an_agent_is_described_with_its_tools_and_callbacks():
    agent = LlmAgent(
        name="cook",
        description="Cooks.",
        model="gemini-flash-latest",
        instruction="Cook {dish?}.",
        output_key="meal",
        tools=[look_up, LongRunningFunctionTool(order), Kitchen()],
        before_agent_callback=[greet],
    )

    tree = describe(agent, None, "kitchen")

    assert (tree["name"], tree["type"], tree["model"]) == ("cook", "LlmAgent", "gemini-flash-latest")
    assert (tree["instruction"], tree["output_key"]) == ("Cook {dish?}.", "meal")
    assert tree["callbacks"] == {"before_agent_callback": ["greet"]}
    assert [tool["name"] for tool in tree["tools"]] == ["look_up", "order", "Kitchen"]
    assert [tool.get("long_running") for tool in tree["tools"]] == [False, True, None]
    assert set(tree["tools"][0]["schema"]["properties"]) == {"city", "days"}
    assert tree["app"] == {"name": "kitchen", "is_app": False}


def test_an_instruction_provider_is_named_and_not_asked():
    tree = describe(LlmAgent(name="cook", instruction=instruct), None, "kitchen")
    assert (tree["instruction"], tree["instruction_provider"]) == ("", "instruct")


def test_agents_of_agents_are_described_in_depth():
    inner = LoopAgent(name="loop", sub_agents=[LlmAgent(name="taster")], max_iterations=3)

    tree = describe(SequentialAgent(name="menu", sub_agents=[inner]), None, "kitchen")

    (loop,) = tree["sub_agents"]
    assert (loop["type"], loop["max_iterations"]) == ("LoopAgent", 3)
    assert loop["sub_agents"][0]["name"] == "taster"


def test_the_settings_of_an_app_are_described():
    app = App(
        name="kitchen",
        root_agent=LlmAgent(name="cook"),
        plugins=[BasePlugin(name="salt")],
        resumability_config=ResumabilityConfig(is_resumable=True),
    )

    settings = describe(app.root_agent, app, "kitchen")["app"]

    assert (settings["is_app"], settings["resumable"], settings["plugins"]) == (True, True, ["BasePlugin"])
    assert settings["compaction"] is None
