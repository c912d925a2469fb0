"""Description of agents for the agent page."""

from __future__ import annotations

import functools
import inspect
import json
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
from google.adk.agents import LlmAgent, LoopAgent, SequentialAgent
from google.adk.agents.context_cache_config import ContextCacheConfig
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.environment import LocalEnvironment
from google.adk.models import FallbackModel, Gemini
from google.adk.planners import BuiltInPlanner, PlanReActPlanner
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.skills.models import Frontmatter, Resources, Script, Skill
from google.adk.tools import FunctionTool, LongRunningFunctionTool
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.environment import EnvironmentToolset
from google.adk.tools.model_consult import ModelConsultTool
from google.adk.tools.skill_toolset import SkillToolset
from google.adk.workflow import Workflow
from google.genai import types as genai
from pydantic import BaseModel

from devui.runtime.agent_description import AGENT_CALLBACKS, LLM_CALLBACKS, PLUGIN_HOOKS, describe
from devui.runtime.code_locations import CodeLocator
from devui.runtime.described_settings import GLOBAL_INSTRUCTION
from devui.runtime.guarded_reads import call_with_timeout
from sessions_app.agents.page.description import HOOKS

pytestmark = pytest.mark.soak


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


class Salt(BasePlugin):
    """Sees what is asked of models."""

    async def before_model_callback(self, *, callback_context, llm_request):
        return None


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
    assert [callback["name"] for callback in tree["callbacks"]["before_agent_callback"]] == ["greet"]
    assert [tool["name"] for tool in tree["tools"]] == ["look_up", "order", "Kitchen"]
    assert [tool.get("long_running") for tool in tree["tools"]] == [False, True, None]
    assert set(tree["tools"][0]["schema"]["properties"]) == {"city", "days"}
    assert tree["app"] == {"name": "kitchen", "is_app": False}


def test_instruction_provider_is_named_but_not_called():
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
        plugins=[Salt(name="salt")],
        context_cache_config=ContextCacheConfig(ttl_seconds=60),
        resumability_config=ResumabilityConfig(is_resumable=True),
    )

    settings = describe(app.root_agent, app, "kitchen")["app"]

    assert (settings["is_app"], settings["resumable"]) == (True, True)
    (salt,) = settings["plugins"]
    assert (salt["name"], salt["type"], salt["hooks"]) == ("salt", "Salt", ["before_model_callback"])
    assert settings["compaction"] is None
    assert settings["context_cache"] == {"cache_intervals": 10, "ttl_seconds": 60, "min_tokens": 0}


def test_callbacks_tools_and_providers_have_source_locations():
    agent = LlmAgent(name="cook", instruction=instruct, tools=[look_up], before_agent_callback=greet)

    tree = describe(agent, None, "kitchen")

    (greeting,) = tree["callbacks"]["before_agent_callback"]
    assert greeting["at"] == {"file": __file__, "line": greet.__code__.co_firstlineno}
    assert tree["tools"][0]["at"] == {"file": __file__, "line": look_up.__code__.co_firstlineno}
    assert tree["instruction_provider_at"] == {"file": __file__, "line": instruct.__code__.co_firstlineno}


def test_wrapped_function_has_location_of_the_original():
    @functools.wraps(look_up)
    def logged(*args, **kwargs):
        return look_up(*args, **kwargs)

    places = CodeLocator(Path("/"), Path("/"))
    here = {"file": __file__, "line": look_up.__code__.co_firstlineno}
    assert places.locate_code(logged) == places.locate_code(functools.partial(look_up, days=2)) == here
    assert places.locate_code(len) == {}


def test_agent_has_location_of_its_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "kitchen_of_test.py"
    file.write_text("def make(name):\n    return Agent(name=name)\n\nx = Agent(\n  name='cook')\n")
    module = types.ModuleType("kitchen_of_test")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "kitchen_of_test", module)
    (tmp_path / "root_agent.yaml").write_text("model: m\nname: chef  # head\n")
    places = CodeLocator(tmp_path, tmp_path)

    lines = {name: places.locate_agent(name, object()).get("line") for name in ("cook", "chef", "nobody")}

    assert lines == {"cook": 5, "chef": 2, "nobody": None}


def test_code_that_cannot_be_read_has_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "broken_of_test.py").write_bytes(b"\xff")
    module = types.ModuleType("broken_of_test")
    module.__file__ = str(tmp_path / "broken_of_test.py")
    monkeypatch.setitem(sys.modules, "broken_of_test", module)
    assert CodeLocator(tmp_path, tmp_path).locate_agent("cook", object()) == {}


def test_context_of_a_tool_is_recognized_by_its_parameter():
    def cook(tool_context) -> None: ...

    tools = describe(LlmAgent(name="cook", tools=[cook, look_up]), None, "kitchen")["tools"]
    assert [tool["context"] for tool in tools] == ["tool_context", ""]


def test_model_names_its_provider_and_hides_secrets():
    config = genai.GenerateContentConfig(
        temperature=0.5, http_options=genai.HttpOptions(headers={"x-key": "sesame"})
    )
    below = LlmAgent(name="maid")
    tree = describe(
        LlmAgent(name="cook", model="m", sub_agents=[below], generate_content_config=config), None, "kitchen"
    )

    assert (tree["model"], tree["model_from"]) == ("m", "")
    assert tree["model_config"] == {"temperature": 0.5, "http_options": "set"}
    assert [(maid["model"], maid["model_from"]) for maid in tree["sub_agents"]] == [("m", "the agent above")]
    alone = describe(LlmAgent(name="alone"), None, "kitchen")
    assert (alone["model"], alone["model_from"]) == (LlmAgent.DEFAULT_MODEL, "ADK's default")


def test_settings_that_differ_from_adks_defaults_are_listed():
    agent = LlmAgent(name="cook", include_contents="none", disallow_transfer_to_peers=True)
    settings = describe(agent, None, "kitchen")["settings"]
    assert settings == {"include_contents": "none", "disallow_transfer_to_peers": True}


def test_planner_code_executor_and_retries_are_shown_with_what_is_set():
    agent = LlmAgent(
        name="cook",
        planner=BuiltInPlanner(thinking_config=genai.ThinkingConfig(thinking_budget=100)),
        code_executor=UnsafeLocalCodeExecutor(timeout_seconds=3),
    )
    settings = describe(agent, None, "kitchen")["settings"]
    assert settings["planner"] == {"type": "BuiltInPlanner", "thinking_config": {"thinking_budget": 100}}
    assert settings["code_executor"] == {"type": "UnsafeLocalCodeExecutor", "timeout_seconds": 3}
    plain = LlmAgent(name="cook", planner=PlanReActPlanner())
    assert describe(plain, None, "kitchen")["settings"] == {"planner": "PlanReActPlanner"}


def test_skills_and_environment_of_toolsets_are_shown():
    resources = Resources(
        references={"flour.md": "Type 550."},
        assets={"bread.png": b"\x89"},
        scripts={"knead.sh": Script(src="echo 1")},
    )
    frontmatter = Frontmatter(name="bake", description="Bakes bread.")
    skill = Skill(frontmatter=frontmatter, instructions="Mix.", resources=resources)
    environment = LocalEnvironment(working_dir=Path("/kitchen"), env_vars={"API_KEY": "s3cret"})
    tools = [
        SkillToolset(skills=[skill], tool_name_prefix="chef"),
        EnvironmentToolset(environment=environment, tool_filter=["execute"]),
    ]
    described = describe(LlmAgent(name="cook", tools=tools), None, "kitchen")["tools"]
    assert [tool["prefix"] for tool in described] == ["chef", ""]
    assert described[0]["settings"] == {}
    [skill_text] = described[0]["skills"]
    assert (skill_text["name"], skill_text["description"]) == ("bake", "Bakes bread.")
    assert skill_text["instructions"] == "Mix."
    assert skill_text["files"] == [
        {"kind": "reference", "path": "flour.md", "text": "Type 550."},
        {"kind": "asset", "path": "bread.png", "text": ""},
        {"kind": "script", "path": "knead.sh", "text": "echo 1"},
    ]
    assert described[1]["settings"] == {
        "tool_filter": ["execute"],
        "environment": "LocalEnvironment",
        "working_dir": "/kitchen",
    }
    assert "s3cret" not in json.dumps(described)


@pytest.mark.parametrize(
    ("connection", "server"),
    [
        (
            {"url": "https://ann:pw@mcp.example/sse?key=1", "headers": {"a": "b"}},
            "https://ann@mcp.example/sse",
        ),
        ({"server_params": types.SimpleNamespace(command="npx", args=["--token", "s3cret"])}, "npx"),
        ({"command": "npx", "args": ["--token", "s3cret"]}, "npx"),
    ],
)
def test_mcp_server_is_named_without_credentials(connection, server):
    toolset = Kitchen()
    toolset.connection_params = types.SimpleNamespace(**connection)
    [described] = describe(LlmAgent(name="cook", tools=[toolset]), None, "kitchen")["tools"]
    assert described["settings"] == {"server": server}


def test_deprecated_and_experimental_parts_are_named():
    loop = LoopAgent(name="loop", sub_agents=[LlmAgent(name="cook", global_instruction="Be brief.")])
    model = FallbackModel(models=["gemini-3.1-pro-preview", Gemini(model="gemini-3.5-flash")])
    root = LlmAgent(name="head", model=model, sub_agents=[loop])
    app = App(name="kitchen", root_agent=root, resumability_config=ResumabilityConfig(is_resumable=True))

    tree = describe(root, app, "kitchen")

    assert [caution["stage"] for caution in tree["cautions"]] == ["experimental"]
    assert "FallbackModel" in tree["cautions"][0]["text"]
    assert tree["fallbacks"] == ["gemini-3.1-pro-preview", "gemini-3.5-flash"]
    [loop_agent] = tree["sub_agents"]
    assert [caution["stage"] for caution in loop_agent["cautions"]] == ["deprecated"]
    assert "in favor of Workflow" in loop_agent["cautions"][0]["text"]
    [cook] = loop_agent["sub_agents"]
    assert cook["cautions"] == [{"stage": "deprecated", "text": GLOBAL_INSTRUCTION}]
    assert ["ResumabilityConfig" in caution["text"] for caution in tree["app"]["cautions"]] == [True]


async def test_adk_still_warns_of_a_global_instruction():
    with pytest.warns(DeprecationWarning, match="GlobalInstructionPlugin"):
        await LlmAgent(name="cook", global_instruction="Be brief.").canonical_global_instruction(None)


def test_plain_agent_has_no_cautions():
    tree = describe(LlmAgent(name="cook", model="gemini-flash-latest", tools=[look_up]), None, "kitchen")
    assert (tree["cautions"], tree["tools"][0]["cautions"], tree["fallbacks"]) == ([], [], [])


def test_confirmations_of_tools_are_described():
    def is_expensive(dish: str) -> bool:
        return dish == "lobster"

    tools = [
        FunctionTool(order, require_confirmation=True),
        FunctionTool(order, require_confirmation=is_expensive),
        order,
    ]
    described = describe(LlmAgent(name="cook", tools=tools), None, "kitchen")["tools"]
    assert [tool["confirmation"] for tool in described] == ["always", "is_expensive", ""]


def test_advisor_of_a_model_consult_tool_is_named():
    [tool] = describe(
        LlmAgent(name="cook", tools=[ModelConsultTool(model="gemini-3.1-pro-preview", max_uses=2)]),
        None,
        "kitchen",
    )["tools"]
    assert tool["settings"].items() >= {"advisor_model": "gemini-3.1-pro-preview", "max_uses": 2}.items()


def test_long_config_of_a_plug_in_is_named_by_its_type():
    class Spices(BaseModel):
        names: list[str] = []

    class Pepper(BasePlugin):
        def __init__(self) -> None:
            super().__init__(name="pepper")
            self.few, self.many = Spices(names=["salt"]), Spices(names=["salt"] * 10_000)

    app = App(name="kitchen", root_agent=LlmAgent(name="cook"), plugins=[Pepper()])
    [plugin] = describe(app.root_agent, app, "kitchen")["app"]["plugins"]
    assert plugin["settings"] == {"few": {"names": ["salt"]}, "many": "Spices"}


def test_settings_of_plug_ins_are_shown_without_credentials():
    class Pepper(BasePlugin):
        def __init__(self) -> None:
            super().__init__(name="pepper")
            self.grams = 3
            self.api_key = "s3cret"
            self.hidden = object()

    app = App(name="kitchen", root_agent=LlmAgent(name="cook"), plugins=[Pepper()])
    [plugin] = describe(app.root_agent, app, "kitchen")["app"]["plugins"]
    assert plugin["settings"]["grams"] == 3
    assert "hidden" not in plugin["settings"]
    assert "s3cret" not in json.dumps(plugin)


def test_schemas_of_data_are_described():
    class Dish(BaseModel):
        name: str

    tree = describe(LlmAgent(name="cook", output_schema=list[Dish], input_schema=Dish), None, "kitchen")
    assert tree["schemas"]["input_schema"]["required"] == ["name"]
    assert tree["schemas"]["output_schema"]["type"] == "array"


def test_agents_are_described_by_an_adk_without_its_deprecated_agents():
    code = """
import sys
import google.adk.cli.dev_server  # ADK's own server imports them
sys.modules["google.adk.agents.loop_agent"] = None
from google.adk.agents import LlmAgent
import sessions_app.adk.recorder, evals_app.execution.variant_fields
from devui.runtime.agent_description import describe
print(describe(LlmAgent(name="cook"), None, "kitchen")["name"])
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "devui.settings"}
    done = subprocess.run(
        [sys.executable, "-c", f"import django; django.setup()\n{code}"],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("cook\n", 0), done.stderr


def test_workflow_is_described_as_a_graph():
    def taste(ctx, node_input: str) -> str:
        return node_input

    def serve(node_input: str) -> None: ...

    flow = Workflow(name="dinner", edges=[("START", taste), (taste, {"good": serve})])

    tree = describe(flow, None, "kitchen")

    nodes = {node["name"]: node for node in tree["nodes"]}
    assert set(nodes) == {"__START__", "taste", "serve"}
    assert (nodes["taste"]["context"], nodes["serve"]["context"]) == ("ctx", "")
    assert nodes["taste"]["at"]["file"] == __file__
    assert {"from": "taste", "to": "serve", "route": "good"} in tree["edges"]


def test_agent_behind_a_tool_is_described():
    tree = describe(LlmAgent(name="cook", tools=[AgentTool(LlmAgent(name="maid"))]), None, "kitchen")
    assert tree["tools"][0]["agent"]["name"] == "maid"


def test_recursive_agent_is_described_once():
    root = LlmAgent(name="cook")
    root.sub_agents.append(root)
    assert describe(root, None, "kitchen")["sub_agents"] == [
        {"name": "cook", "type": "LlmAgent", "description": "", "again": True}
    ]


def test_agents_below_many_others_are_bounded_together():
    def level(depth: int, name: str) -> LlmAgent:
        below = [level(depth - 1, f"{name}_{number}") for number in range(12)] if depth else []
        return LlmAgent(name=name, sub_agents=below)

    def count(node) -> int:
        return ("problem" not in node) + sum(count(child) for child in node.get("sub_agents", ()))

    assert count(describe(level(3, "a"), None, "kitchen")) == 300


class Hostile(LlmAgent):
    """Raises whatever is asked of it."""

    def __getattribute__(self, name):
        if name in {"tools", "description", "before_agent_callback"}:
            raise ValueError("no")
        return super().__getattribute__(name)


def test_agent_that_raises_when_read_does_not_hide_neighbours():
    root = LlmAgent(name="root", sub_agents=[LlmAgent(name="good")])
    root.sub_agents.insert(0, Hostile(name="bad"))

    bad, good = describe(root, None, "kitchen")["sub_agents"]

    assert (bad["name"], bad["problem"]) == ("bad", "ValueError: no")
    assert good["name"] == "good"


def test_texts_of_megabytes_are_cut():
    instruction, description = "x" * 3_000_000, "y" * 3_000_000
    tree = describe(LlmAgent(name="cook", instruction=instruction, description=description), None, "kitchen")
    assert len(json.dumps(tree)) < 80_000


def test_a_tool_that_cannot_be_read_is_named_with_its_problem():
    agent = LlmAgent(name="cook")
    agent.tools.append(object())
    (tool,) = describe(agent, None, "kitchen")["tools"]
    assert (tool["name"], bool(tool["problem"])) == ("object", True)


def test_names_of_any_characters_stay_json():
    agent = LlmAgent(name="cook", description="\ud800\x00<b>", instruction="\u202e" * 5)
    assert json.loads(json.dumps(describe(agent, None, "kitchen")))["description"] == "\ud800\x00<b>"


async def test_reading_that_blocks_is_left_behind():
    let_go = threading.Event()
    with pytest.raises(TimeoutError):
        await call_with_timeout(let_go.wait, 0.05)
    let_go.set()


async def test_reading_that_exits_is_an_error_like_others():
    with pytest.raises(RuntimeError, match="SystemExit"):
        await call_with_timeout(lambda: sys.exit(3), 60)


def test_page_knows_every_hook_and_its_context():
    assert set(HOOKS) == {*PLUGIN_HOOKS, *AGENT_CALLBACKS, *LLM_CALLBACKS}
    for hook, (kind, _) in HOOKS.items():
        parameters = inspect.signature(getattr(BasePlugin, hook)).parameters
        assert f"{kind}_context" in parameters, hook
