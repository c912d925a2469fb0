"""The form of variants: changed fields become variants, beside the agents as their description has them."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.tools import AgentTool
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

from devui.runtime.agent_description import MAX_TEXT, describe
from evals_app.analysis.instruction_history import read_instruction_history
from evals_app.execution.variants import apply_variant
from evals_app.models import EvalRun
from evals_app.variants.model_variants import ALL, ROOT
from evals_app.variants.original_agents import OriginalAgent, hash_agents, read_original_agents
from evals_app.variants.variant import Variant
from evals_app.variants.variant_files import parse_variant
from evals_app.variants.variant_form import VariantForm, add_models, draft_variant, parse_form, read_form
from sessions_app.agents import cards
from sessions_app.runs import runtime_client
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from tests.evals import agents as scripted
from tests.evals.conftest import Process
from tests.evals.recorded_instructions import record, session
from tests.pages.html import parse


def find(city: str) -> str:
    """Find a city."""
    return city


def wind(city: str) -> str:
    """Return the wind of a city."""
    return "calm"


class Far(BaseToolset):
    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return []


def tree() -> SequentialAgent:
    """Return a tree of agents with each kind of field."""
    helper = LlmAgent(name="helper", model="gemini-2.5-flash", instruction="Help.\nAlways.")
    thermo = LlmAgent(
        name="thermo",
        model="gemini-2.5-flash",
        instruction="Answer in Celsius.",
        generate_content_config=types.GenerateContentConfig(temperature=0.5),
        tools=[find, wind, AgentTool(helper), Far()],
    )
    poet = LlmAgent(name="poet", instruction=lambda context: "Rhyme.", description="A poet.")
    return SequentialAgent(name="root", sub_agents=[thermo, poet])


@pytest.fixture
def originals() -> list[OriginalAgent]:
    return read_original_agents(describe(tree(), None, "app"))


def submitted(originals: list[OriginalAgent], count: int = 1, **changes: str | None) -> QueryDict:
    """Return what a browser sends of the form; `None` in `changes` unchecks a box. `__` stands for a dot."""
    data = QueryDict(mutable=True)
    data["variants"] = str(count)
    form = VariantForm(originals, read_form(data, originals).drafts)
    for row in form.rows:
        for _, cells in (*row.fields, *row.tools, (None, row.others)):
            for cell in cells:
                data[cell.input_name] = cell.value.replace("\n", "\r\n")
                if cell.offered_name:
                    data[cell.offered_name] = "on"
    for position in range(count):
        data[f"v{position}-name"] = f"variant {position + 1}"
    for key, value in changes.items():
        name = key.replace("_dash_", "-").replace("__", ".")
        if value is None:
            del data[name]
        else:
            data[name] = value
    return data


def parsed(originals: list[OriginalAgent], **changes: str | None) -> Variant:
    [variant] = parse_form(read_form(submitted(originals, **changes), originals))
    return variant


def refused(originals: list[OriginalAgent], **changes: str | None) -> str:
    with pytest.raises(BadInput) as error:
        parse_form(read_form(submitted(originals, **changes), originals))
    return f"{error.value.message} {error.value.hint}"


def test_form_has_the_fields_that_a_variant_may_replace(originals):
    by_name = {agent.name: agent for agent in originals}
    assert [*by_name] == ["root", "thermo", "helper", "poet"]
    assert [field.name for field in by_name["root"].fields] == ["description"]
    values = {field.name: field.value for field in by_name["thermo"].fields}
    assert values == {
        "instruction": "Answer in Celsius.",
        "model": "gemini-2.5-flash",
        "generate_content_config": "temperature: 0.5\n",
        "description": "",
    }
    assert by_name["poet"].fields[0].fixed_reason == "The function <lambda>: change its code."
    tools = {tool.name: tool for tool in by_name["thermo"].tools}
    assert tools["find"].description == "Find a city."
    assert tools["Far"].fixed_reason == "A toolset: its tools are known only while the agent runs."


def test_only_changed_fields_become_part_of_the_variant(originals):
    variant = parsed(
        originals,
        v0_dash_thermo__instruction="Answer in Fahrenheit.\r\nBriefly.",
        v0_dash_thermo__generate_content_config="temperature: 0\r\ntop_p: 0.9",
        v0_dash_thermo__offered__wind=None,
        v0_dash_thermo__tool__find="By name.",
        v0_dash_helper__other="output_key: help",
        v0_dash_note="a <b>note</b>",
    )
    assert variant.note == "a <b>note</b>"
    assert variant.patch == {
        "thermo": {
            "instruction": "Answer in Fahrenheit.\nBriefly.",
            "generate_content_config": {"temperature": 0, "top_p": 0.9},
            "tools": {"remove": ["wind"], "describe": {"find": "By name."}},
        },
        "helper": {"output_key": "help"},
    }
    apply_variant(variant, tree(), None)
    assert parse_variant(variant.file_text, "v.yaml", "v") == variant
    draft = draft_variant(variant, originals)
    assert parse_form(VariantForm(originals, [draft])) == [variant]


def test_form_that_changes_nothing_is_refused_in_a_line(originals):
    assert refused(originals) == (
        "Variant 'variant 1' changes nothing. Change a field of the agent, or remove the variant."
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"v0_dash_name": ""}, "variant 1: name: must be text in one line"),
        ({"v0_dash_name": "x" * 61}, "variant 1: name: "),
        (
            {"v0_dash_thermo__instruction": "x" * 1_000_000},
            "characters, more than 200,000: shorten its texts",
        ),
        (
            {"v0_dash_thermo__generate_content_config": "a: [b"},
            "the generation config: is not valid YAML: line 2: ",
        ),
        (
            {"v0_dash_thermo__generate_content_config": "hot"},
            "must be a YAML object, one `field: value` a line. Write one field a line",
        ),
        ({"v0_dash_thermo__other": "&a [*a]"}, "other fields: is not valid YAML: "),
        ({"v0_dash_thermo__other": "a: 1\na: 2"}, "a occurs twice"),
        (
            {"v0_dash_thermo__other": "instruction: y"},
            "instruction is set both in its own field and under Other fields. Remove one of them.",
        ),
    ],
)
def test_invalid_input_is_refused_with_its_rule(originals, changes, message):
    assert message in refused(originals, **{"v0_dash_thermo__instruction": "Be brief.", **changes})


def test_equal_variants_are_refused(originals):
    texts = {f"v{number}_dash_thermo__model": "gemini-2.5-pro" for number in range(2)}
    with pytest.raises(BadInput, match="make the same changes"):
        parse_form(read_form(submitted(originals, 2, **texts), originals))


def test_variant_of_an_agent_that_the_form_lacks_cannot_be_opened(originals):
    with pytest.raises(BadInput, match="it changes the agent 'gone'"):
        draft_variant(Variant("v", "", {"gone": {"model": "x"}}), originals)


def test_fields_without_an_input_stay_when_a_variant_is_opened(originals):
    patch = {
        "thermo": {"static_instruction": None, "tools": {"remove": ["Far"]}, "planner": None, "model": "m"},
        "poet": {"output_key": "poem"},
    }
    draft = draft_variant(Variant("v", "", patch), originals)
    assert parse_form(VariantForm(originals, [draft]))[0].patch == patch


PAGE = "/evals/counter/smoke/variants/"


@pytest.fixture
async def agent(web, smoke, folder):
    """The agent of the folder: it says its instruction, which its tools are not needed for."""
    root = LlmAgent(
        name="counter", model=scripted.Says(model="says", text="It rains."), instruction="<b>Old</b>"
    )
    process = Process(scripted.Source(root, folder=folder))
    runtime_client.register(process)
    await units_of_work.write(cards.save_loaded, "counter", "v1", describe(root, None, "counter"))
    return process


async def get_page(web, address: str = PAGE):
    response = await web.get(address)
    assert response.status_code == 200, response.content.decode()[:1000]
    return parse(response.content)


def fields(page) -> dict[str, str]:
    """Return what a browser sends of the form."""
    form = page.one(id="variant-form").one("form")
    data = {
        node.attrs["name"]: node.attrs.get("value", "")
        for node in form.all("input")
        if "name" in node.attrs and (node.attrs.get("type") != "checkbox" or "checked" in node.attrs)
    }
    return data | {node.attrs["name"]: node.text for node in form.all("textarea")}


async def test_page_orders_the_original_and_its_variants(web, agent):
    page = await get_page(web, f"{PAGE}?case=good")
    assert "<b>Old</b>" in page.all(css="variant-original")[0].text
    data = fields(page) | {"action": "add"}
    page = parse((await web.post(PAGE, data)).content)
    data = fields(page) | {"action": "run", "num_runs": "2", "v0-name": "first", "v1-name": "second"}
    data |= {"v0-counter.instruction": "New", "v1-counter.instruction": "Newer"}
    response = await web.post(PAGE, data)
    assert response.status_code == 302, response.content.decode()[:3000]
    rows = await units_of_work.read(lambda: list(EvalRun.objects.order_by("created_at")))
    assert [Variant.from_json(run.variant).name if run.variant else "" for run in rows] == [
        "",
        "first",
        "second",
    ]
    assert [(run.case_ids, run.num_runs, run.source) for run in rows] == [('["good"]', 2, "page")] * 3
    assert response.headers["Location"] == f"/evals/runs/{rows[0].pk}/#variants"
    again = fields(await get_page(web, f"{PAGE}?run={rows[1].pk}"))
    assert (again["v0-name"], again["v0-counter.instruction"], again["num_runs"]) == ("first", "New", "2")
    both = fields(await get_page(web, f"{PAGE}?run={rows[0].pk}"))
    assert (both["v1-name"], both["case"]) == ("second", "good")
    file = await web.get(f"/evals/runs/{rows[1].pk}/variant/")
    assert file.headers["Content-Disposition"] == 'attachment; filename="first.yaml"'
    variant = parse_variant(file.content.decode(), "first.yaml", "first")
    assert variant.hash == rows[1].variant_hash
    assert (await web.get(f"/evals/runs/{rows[0].pk}/variant/")).status_code == 404


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "Variant 'variant 1' changes nothing."),
        ({"v0-counter.model": "none-1"}, "there is no class for the model 'none-1'"),
        ({"v0-counter.instruction": "x" * 1_000_000}, "more than 200,000: shorten its texts"),
        ({"v0-counter.instruction": "New", "num_runs": "0"}, "Repetitions must be 1 to 20,000"),
        (
            {"v0-counter.instruction": "New", "num_runs": "6000"},
            "2 runs, the original and its variants, of 18,000 attempts each have more than 20,000 together.",
        ),
        (
            {"v0-counter.instruction": "New", "seen": "other"},
            "The agent has changed since the form was opened.",
        ),
    ],
)
async def test_refused_form_keeps_what_was_typed_and_orders_nothing(web, agent, changes, message):
    data = fields(await get_page(web)) | {"action": "run", "v0-note": "kept"} | changes
    response = await web.post(PAGE, data)
    assert response.status_code == 422
    page = parse(response.content)
    assert message in page.one(css="notice-danger").text
    sent = fields(page)
    assert sent["v0-note"] == "kept"
    assert {name: sent[name] for name in changes if name.startswith("v0")} == {
        name: value for name, value in changes.items() if name.startswith("v0")
    }
    assert not await units_of_work.read(EvalRun.objects.exists)


def test_models_become_variants_of_the_agents_with_a_model_of_their_own(originals):
    form = read_form(submitted(originals), originals)
    first, second = parse_form(add_models(form, ["gemini-2.5-pro", "gemini-3-pro"], ALL))
    assert first.name == "gemini-2.5-pro"
    assert first.patch == {name: {"model": "gemini-2.5-pro"} for name in ("thermo", "poet", "helper")}
    assert second.patch["thermo"] == {"model": "gemini-3-pro"}
    parent = LlmAgent(name="parent", model="gemini-2.5-flash", sub_agents=[LlmAgent(name="child")])
    below = read_original_agents(describe(parent, None, "app"))
    [variant] = parse_form(add_models(read_form(submitted(below), below), ["gemini-3-pro"], ALL))
    assert [*variant.patch] == ["parent"]


def test_models_stand_beside_variants_that_change_something(originals):
    form = read_form(submitted(originals, v0_dash_thermo__instruction="Other."), originals)
    names = [draft.name for draft in add_models(form, ["gemini-2.5-pro"], ALL).drafts]
    assert names == ["variant 1", "gemini-2.5-pro"]


def test_models_that_make_no_variants_are_refused(originals):
    form = read_form(submitted(originals), originals)
    with pytest.raises(BadInput, match="The root agent 'root' has no model of its own"):
        add_models(form, ["gemini-2.5-pro"], ROOT)
    with pytest.raises(BadInput, match="No model is given"):
        add_models(form, [], ALL)
    with pytest.raises(BadInput, match="5 variants are given"):
        add_models(form, [f"gemini-{number}" for number in range(5)], ALL)


async def test_page_adds_models_as_variants_and_keeps_refused_ones(web, agent):
    data = fields(await get_page(web)) | {"action": "models", "models": "gemini-a\r\n\r\ngemini-b\r\n"}
    added = fields(parse((await web.post(PAGE, data)).content))
    assert [added[f"v{number}-counter.model"] for number in (0, 1)] == ["gemini-a", "gemini-b"]
    response = await web.post(PAGE, data | {"models": "\n".join("abcde")})
    assert response.status_code == 422
    assert fields(parse(response.content))["models"].split() == [*"abcde"]


async def test_form_opens_with_an_earlier_instruction_of_the_agent(web, agent):
    await units_of_work.write(lambda: record(session("a"), "Older."))
    [version] = await units_of_work.read(lambda: read_instruction_history("counter").versions["counter"])
    opened = fields(await get_page(web, f"{PAGE}?instruction={version.key}"))
    assert (opened["v0-name"], opened["v0-counter.instruction"]) == ("earlier instruction", "Older.")
    assert (await web.get(f"{PAGE}?instruction=none")).status_code == 404


async def test_form_of_an_earlier_agent_stays_one_when_a_variant_is_added(web, agent):
    data = fields(await get_page(web)) | {"action": "add", "seen": "other"}
    assert fields(parse((await web.post(PAGE, data)).content))["seen"] == "other"


async def test_agent_that_cannot_be_loaded_shows_why(web, smoke):
    page = await get_page(web)
    assert "This process runs no agents." in page.one(css="notice-danger").text
    assert "are not known" in page.one(id="variant-form").text


async def test_run_of_another_evalset_is_refused(web, agent):
    assert (await web.get(f"{PAGE}?run=none")).status_code == 404


def test_text_that_the_description_cuts_is_shown_but_not_changed():
    agent = LlmAgent(name="long", instruction="x" * 1_000_000, description="d" * (MAX_TEXT - 1))
    [original] = read_original_agents(describe(agent, None, "app"))
    instruction, description = (original.fields[number] for number in (0, 3))
    assert instruction.fixed_reason == "Longer than 30,000 characters: write a variant file."
    assert (description.name, description.fixed_reason) == ("description", "")


def test_hash_of_the_agents_follows_what_the_form_shows(originals):
    assert hash_agents(originals) == hash_agents([*originals]) != hash_agents(originals[:1])
