"""Variants: their files, and copies of ADK agents that they change."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.planners import BuiltInPlanner, PlanReActPlanner
from google.adk.tools import AgentTool, FunctionTool, google_search
from google.adk.tools.base_toolset import BaseToolset
from google.adk.workflow import START, Workflow
from google.genai import types

from evals_app.execution.variants import apply_variant
from evals_app.variants.variant import Variant, require_distinct_variants
from evals_app.variants.variant_files import MAX_CHARACTERS, parse_variant, read_variant
from sessions_app.file_problems import BadFile
from sessions_app.store.errors import BadInput, NotFound

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def parse(text: str, name: str = "v.yaml") -> Variant:
    return parse_variant(text, name, name)


def refused_file(text: str, name: str = "v.yaml") -> str:
    with pytest.raises(BadFile) as error:
        parse(text, name)
    return error.value.message


def vary(agent: Any, **agents: Any) -> Any:
    """Return the agent, changed by a variant that is written as in a file."""
    return apply_variant(Variant("test", "", agents), agent, None)[0]


def refused(agent: Any, **agents: Any) -> tuple[str, str]:
    with pytest.raises(BadInput) as error:
        vary(agent, **agents)
    return error.value.message, error.value.hint


def find_thermometer(city: str) -> str:
    """Return the temperature of a city."""
    return "20"


def wind(city: str) -> str:
    """Return the wind of a city."""
    return "calm"


def thermo(**more: Any) -> LlmAgent:
    return LlmAgent(name="thermo", model="gemini-2.5-flash", instruction="Answer in Celsius.", **more)


def declarations(agent: LlmAgent) -> dict[str, str]:
    """Return the descriptions of the tools that a request to the model declares."""
    request = LlmRequest()
    request.append_tools(asyncio.run(agent.canonical_tools()))
    declared = request.config.tools[0].function_declarations if request.config.tools else []
    return {declaration.name: declaration.description for declaration in declared}


def test_file_names_agents_fields_and_tools():
    variant = parse(
        "name: in Fahrenheit\nnote: as asked\nagents:\n  thermo:\n    instruction: Answer in Fahrenheit.\n"
        "    tools: {remove: [wind], describe: {find: By city.}}\n    output_key: null\n"
    )
    assert (variant.name, variant.note) == ("in Fahrenheit", "as asked")
    assert variant.patch == {
        "thermo": {
            "instruction": "Answer in Fahrenheit.",
            "tools": {"remove": ["wind"], "describe": {"find": "By city."}},
            "output_key": None,
        }
    }
    assert Variant.from_json(variant.as_json()) == variant


def test_hash_is_that_of_the_changes_in_yaml_and_json():
    written = parse("name: a\nagents: {x: {model: m, instruction: i}}")
    same = parse('{"name": "b", "note": "n", "agents": {"x": {"instruction": "i", "model": "m"}}}', "v.json")
    other = parse("name: a\nagents: {x: {model: m, instruction: j}}")
    assert written.hash == same.hash != other.hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "v.yaml: must be an object, not None"),
        ("- a", "v.yaml:1:1: must be an object"),
        ("name: x", "v.yaml:1:1: agents: is required"),
        ("name: x\nagents: {}", "v.yaml:2:1: agents: is empty: name at least one agent"),
        (
            "name: x\nagents: {a: {}}",
            "v.yaml:2:10: agents.a: changes nothing: name a field, or leave the agent out",
        ),
        ("name: x\nagents: {a: hi}", "v.yaml:2:10: agents.a: must be an object, not 'hi'"),
        ("name: x\nagents: {a: {tools: [b]}}", "v.yaml:2:14: agents.a.tools: must be an object"),
        (
            "name: x\nagents: {a: {tools: {add: [b]}}}",
            "agents.a.tools.add: is no known field: correct the name or omit it",
        ),
        (
            "name: x\nagents: {a: {tools: {}}}",
            "agents.a.tools: is empty: add an entry or remove the field",
        ),
        (
            "name: x\nagents: {a: {sub_agents: {remove: b}}}",
            "agents.a.sub_agents.remove: must be a list, not 'b'",
        ),
        ("name: 5\nagents: {a: {model: b}}", "v.yaml:1:1: name: must be text, not 5"),
        (
            "name: ' '\nagents: {a: {model: b}}",
            "name: must be text in one line, without invisible characters",
        ),
        (
            "name: original\nagents: {a: {model: b}}",
            "name: must not be 'original': that is the agent as it is",
        ),
        ("name: x\nagent: {a: {model: b}}\nagents: {a: {model: b}}", "agent: is no known field"),
        (
            "name: x\nagents: {a: {model: b}, a: {model: c}}",
            "An object contains a key twice, and the last one counts: 'a'.",
        ),
        (
            "name: x\nagents: {a: {max_iterations: .nan}}",
            "agents.a.max_iterations must be a number that JSON has",
        ),
        ("name: [", "v.yaml:2:1: is no YAML"),
        (
            "name: x\nagents: !!set {a, b}",
            "v.yaml:2:9: is no YAML: a value has the tag !!set, which JSON does",
        ),
        ("name: !!binary aGk=", "v.yaml:1:7: is no YAML: a value has the tag !!binary"),
        ("name: !!timestamp 2026-01-01", "v.yaml:1:7: is no YAML: a value has the tag !!timestamp"),
        ("name: !!bool maybe", "v.yaml: cannot be read: a value does not fit its tag"),
        (
            "name: x\nagents: {a: {generate_content_config: {temperature: 1.0e+999}}}",
            "agents.a.generate_content_config.temperature must be a number that JSON has",
        ),
        ('name: x\nagents: {a: {tools: {"b\\nc": 1}}}', "agents.a.tools.b\\nc: is no known field"),
        (
            f"name: x\nagents: {{a: {{tools: {{{'b' * 900}: 1}}}}}}",
            f"agents.a.tools.{'b' * 199}…: is no known field",
        ),
    ],
)
def test_files_of_another_shape_are_refused(text, message):
    assert message in refused_file(text)


def test_file_that_is_missing_too_long_or_no_json_is_refused(tmp_path):
    long = f"name: x\nagents: {{a: {{instruction: {'y' * 1_000_000}}}}}"
    assert refused_file(long) == (
        f"v.yaml: has {len(long):,} characters, more than {MAX_CHARACTERS:,}: shorten its texts"
    )
    assert "v.json:1:1: is no JSON" in refused_file("name: x", "v.json")
    with pytest.raises(NotFound, match="there is no such file"):
        read_variant(tmp_path / "gone.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe4")
    with pytest.raises(BadFile, match="is not UTF-8 text"):
        read_variant(tmp_path / "latin.yaml")


def test_thousands_of_wrong_agents_are_named_at_once():
    message = refused_file("name: x\nagents: {" + ", ".join(f"a{number}: 5" for number in range(8_000)) + "}")
    assert message.endswith("… and 7995 more")


def test_variants_of_one_comparison_differ_and_are_at_most_four():
    variants = [Variant(f"v{number}", "", {"a": {"model": str(number)}}) for number in range(5)]
    require_distinct_variants(variants[:4])
    with pytest.raises(BadInput, match="5 variants are given; at most 4 can be compared"):
        require_distinct_variants(variants)
    with pytest.raises(BadInput, match="Two variants have the name 'v1'"):
        require_distinct_variants([variants[1], Variant("v1", "", {"a": {"model": "z"}})])
    with pytest.raises(BadInput, match="The variants 'v1' and 'w' make the same changes"):
        require_distinct_variants([variants[1], Variant("w", "", variants[1].patch)])


def test_fields_of_a_copy_change_and_the_agent_stays():
    agent = thermo(tools=[find_thermometer, wind], output_key="answer")
    varied = vary(
        agent,
        thermo={
            "instruction": "Answer in Fahrenheit.",
            "model": "gemini-2.5-pro",
            "description": "Knows temperatures.",
            "output_key": None,
            "include_contents": "none",
            "generate_content_config": {"temperature": 0.5},
            "planner": {"thinking_config": {"thinking_budget": 64}},
            "disallow_transfer_to_parent": True,
        },
    )
    assert (varied.instruction, varied.model, varied.output_key) == (
        "Answer in Fahrenheit.",
        "gemini-2.5-pro",
        None,
    )
    assert (varied.description, varied.include_contents) == ("Knows temperatures.", "none")
    assert varied.generate_content_config.temperature == 0.5
    assert isinstance(varied.planner, BuiltInPlanner)
    assert varied.planner.thinking_config.thinking_budget == 64
    assert varied.disallow_transfer_to_parent
    assert varied.tools == agent.tools
    assert (agent.instruction, agent.model, agent.output_key) == (
        "Answer in Celsius.",
        "gemini-2.5-flash",
        "answer",
    )
    assert (agent.planner, agent.include_contents) == (None, "default")
    assert vary(thermo(planner=PlanReActPlanner()), thermo={"planner": None}).planner is None


def test_replaced_generation_config_keeps_the_connection_of_the_agent():
    options = types.HttpOptions(timeout=500)
    agent = thermo(generate_content_config=types.GenerateContentConfig(temperature=1, http_options=options))
    config = vary(agent, thermo={"generate_content_config": {"top_p": 0.5}}).generate_content_config
    assert (config.temperature, config.top_p, config.http_options.timeout) == (None, 0.5, 500)


def test_tools_are_removed_and_described_in_requests_of_the_copy_only():
    tool = FunctionTool(find_thermometer)
    agent = thermo(tools=[tool, wind])
    varied = vary(
        agent, thermo={"tools": {"describe": {"find_thermometer": "By city.", "wind": "In knots."}}}
    )
    assert declarations(varied) == {"find_thermometer": "By city.", "wind": "In knots."}
    assert asyncio.run(varied.tools[1].run_async(args={"city": "Oslo"}, tool_context=None)) == "calm"
    assert declarations(vary(agent, thermo={"tools": {"remove": ["wind"]}})).keys() == {"find_thermometer"}
    assert declarations(agent) == {
        "find_thermometer": "Return the temperature of a city.",
        "wind": "Return the wind of a city.",
    }
    assert (tool.description, agent.tools) == ("Return the temperature of a city.", [tool, wind])


def test_sub_agents_of_workflow_agents_change_with_their_parents():
    first, second = thermo(), LlmAgent(name="second", instruction="Check.")
    steps = SequentialAgent(name="steps", sub_agents=[first, LoopAgent(name="loop", sub_agents=[second])])
    root = LlmAgent(name="root", sub_agents=[steps, LlmAgent(name="spare")])
    varied = vary(
        root,
        second={"instruction": "Check twice."},
        loop={"max_iterations": 2},
        root={"sub_agents": {"remove": ["spare"]}},
    )
    assert [child.name for child in varied.sub_agents] == ["steps"]
    loop = varied.find_agent("loop")
    assert (loop.max_iterations, loop.sub_agents[0].instruction) == (2, "Check twice.")
    assert loop.sub_agents[0].parent_agent is loop
    assert loop.parent_agent.parent_agent is varied is varied.find_agent("thermo").root_agent
    assert (second.instruction, second.root_agent) == ("Check.", root)
    assert [child.name for child in root.sub_agents] == ["steps", "spare"]


def test_agent_behind_a_tool_changes():
    agent = LlmAgent(name="root", tools=[AgentTool(agent=thermo(description="Old."))])
    varied = vary(agent, thermo={"instruction": "In Kelvin.", "description": "New."})
    assert varied.tools[0].agent.instruction == "In Kelvin."
    assert declarations(varied) == {"thermo": "New."}
    assert declarations(agent) == {"thermo": "Old."}
    described = vary(
        agent, root={"tools": {"describe": {"thermo": "Asks."}}}, thermo={"instruction": "In Kelvin."}
    )
    assert declarations(described) == {"thermo": "Asks."}
    assert described.tools[0].agent.instruction == "In Kelvin."


class Story(BaseAgent):
    """Calls the agents in its fields, as ADK's documentation of custom agents shows it."""

    writer: LlmAgent
    critics: list[LlmAgent]
    _spare: LlmAgent

    def __init__(self, writer: LlmAgent, critics: list[LlmAgent], **fields: Any) -> None:
        super().__init__(writer=writer, critics=critics, sub_agents=[writer, *critics], **fields)
        self._spare = writer

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.writer.run_async(ctx):
            yield event


def test_agents_in_fields_of_a_class_of_ones_own_change():
    writer, critic = (
        LlmAgent(name="writer", instruction="Write."),
        LlmAgent(name="critic", instruction="Nod."),
    )
    story = Story(writer, [critic], name="story")
    varied = vary(story, writer={"instruction": "Write briefly."}, critic={"instruction": "Object."})
    assert varied.writer.instruction == "Write briefly."
    assert varied.writer is varied.sub_agents[0] is varied._spare
    assert varied.critics == varied.sub_agents[1:]
    assert varied.critics[0].instruction == "Object."
    assert story.writer is writer is story._spare
    assert writer.instruction == "Write."
    message, _ = refused(story, story={"sub_agents": {"remove": ["writer"]}})
    assert message == (
        "Variant 'test': agent 'story': the code of Story calls 'writer' itself, which a variant cannot prevent."
    )


def test_app_wraps_the_copy():
    agent = thermo()
    app = App(name="weather", root_agent=agent)
    varied, varied_app = apply_variant(Variant("v", "", {"thermo": {"instruction": "Kelvin."}}), agent, app)
    assert varied_app is not None
    assert varied_app.root_agent is varied
    assert app.root_agent is agent


class Tools(BaseToolset):
    """Tools that are known only while the agent runs."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return [FunctionTool(wind)]


AGENT = LlmAgent(
    name="root",
    instruction=lambda context: "Now.",
    tools=[find_thermometer, google_search, Tools()],
    sub_agents=[thermo(), LoopAgent(name="loop")],
)


@pytest.mark.parametrize(
    ("agents", "message", "hint"),
    [
        ({"nobody": {"model": "x"}}, "there is no agent 'nobody'.", "Agents of root: root, thermo, loop."),
        (
            {"loop": {"instruction": "x"}},
            "agent 'loop': LoopAgent has no field 'instruction'.",
            "Fields of loop that a variant may replace: description, sub_agents, max_iterations.",
        ),
        (
            {"thermo": {"code_executor": {}}},
            "agent 'thermo': its code_executor cannot be varied.",
            "instruction",
        ),
        (
            {"root": {"instruction": "x"}},
            "agent 'root': its instruction is a function, which a variant cannot replace.",
            "Change the function, or give the agent a text.",
        ),
        (
            {"root": {"tools": {"remove": ["win"]}}},
            "agent 'root' has no tool 'win'. Tools of Tools are known only while the agent runs, and cannot be varied.",
            "Its tools: find_thermometer, google_search.",
        ),
        (
            {"root": {"tools": {"describe": {"google_search": "x"}}}},
            "agent 'root': the tool 'google_search' is built into the model and has no description.",
            "It can only be removed.",
        ),
        (
            {"root": {"tools": {"remove": ["find_thermometer"], "describe": {"find_thermometer": "x"}}}},
            "agent 'root': the tool 'find_thermometer' is removed and described.",
            "Remove it or describe it, not both.",
        ),
        ({"thermo": {"tools": {"remove": ["x"]}}}, "agent 'thermo' has no tool 'x'.", "It has no tools."),
        (
            {"root": {"sub_agents": {"remove": ["x"]}}},
            "agent 'root' has no sub-agent 'x'.",
            "Its sub-agents: thermo, loop.",
        ),
        (
            {"thermo": {"model": "gpt-none"}},
            "agent 'thermo': there is no class for the model 'gpt-none': Model gpt-none not found.",
            "register its class",
        ),
        (
            {"thermo": {"model": 5}},
            "agent 'thermo': model must be the name of a model.",
            "Give its name as text.",
        ),
        (
            {"thermo": {"generate_content_config": {"temperature": "hot"}}},
            "agent 'thermo': generate_content_config.temperature must be a number, not 'hot'.",
            "See this field in ADK's class.",
        ),
        (
            {"thermo": {"generate_content_config": {"heat": 1}}},
            "agent 'thermo': generate_content_config.heat is no known field: correct the name or omit it.",
            "",
        ),
        (
            {"thermo": {"generate_content_config": {"http_options": {"base_url": "http://x"}}}},
            "agent 'thermo': generate_content_config.http_options cannot be varied.",
            "Leave it out: those of the agent stay.",
        ),
        ({"thermo": {"instruction": 5}}, "agent 'thermo': instruction must be text, not 5.", ""),
        (
            {"thermo": {"static_instruction": [5]}},
            "agent 'thermo': static_instruction must be text.",
            "or null",
        ),
        ({"thermo": {"output_key": ["a"]}}, "agent 'thermo': output_key must be text.", ""),
        (
            {"thermo": {"include_contents": "some"}},
            "agent 'thermo': include_contents must be 'default' or 'none', not 'some'.",
            "",
        ),
        (
            {"thermo": {"planner": "PlanReActPlanner"}},
            "agent 'thermo': planner must be {thinking_config: {…}} or null.",
            "Only ADK's BuiltInPlanner can be set.",
        ),
        (
            {"thermo": {"planner": {"thinking_config": {"thinking_budget": "lots"}}}},
            "agent 'thermo': planner.thinking_config.thinking_budget must be a valid integer",
            "",
        ),
    ],
)
def test_what_does_not_exist_or_cannot_be_varied_is_refused(agents, message, hint):
    got_message, got_hint = refused(AGENT, **agents)
    assert got_message.startswith(f"Variant 'test': {message}")
    assert hint in got_hint
    assert "\n" not in got_message + got_hint


def test_agents_of_one_name_cannot_be_told_apart():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = SequentialAgent(name="left", sub_agents=[LlmAgent(name="same")])
        right = SequentialAgent(name="right", sub_agents=[LlmAgent(name="same")])
        root = LlmAgent(name="root", sub_agents=[left, right])
    assert refused(root, same={"model": "gemini-2.5-pro"}) == (
        "Variant 'test': 2 agents have the name 'same'.",
        "Give each a name of its own.",
    )


def test_nodes_of_a_workflow_cannot_be_varied():
    workflow = Workflow(name="flow", edges=[(START, thermo())])
    message, _ = refused(workflow, thermo={"model": "gemini-2.5-pro"})
    assert message == "Variant 'test': 'flow' is a Workflow, whose nodes a variant cannot change."
