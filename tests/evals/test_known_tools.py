"""Expected tool calls are chosen from what the agent declares; the form names what does not fit."""

from __future__ import annotations

import json

import pytest

from evals_app.cases.known_tools import read_known_tools
from sessions_app.agents import cards
from sessions_app.store.database import units_of_work
from tests.evals.builders import case, evalset, turn, write
from tests.evals.form_filling import Browser

CASE = "/evals/counter/set/case/?id=one"
LOOKUP = {
    "name": "get_weather",
    "type": "FunctionTool",
    "schema": {
        "properties": {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}, "raw": True}
    },
}
PACK = {"name": "pack", "type": "FunctionTool", "schema": {}}
INNER = {"name": "helper", "type": "AgentTool", "agent": {"tools": [PACK]}}
TREE = {"tools": [LOOKUP], "sub_agents": [{"tools": [INNER]}], "nodes": []}


async def declare(description):
    await units_of_work.write(cards.save_loaded, "counter", "v1", description)


@pytest.fixture
def browser(web, folder):
    calls = [
        {"name": "get_wether", "args": {"city": "Paris"}},
        {"name": "get_weather", "args": {"town": "Paris"}},
    ]
    document = evalset(case("one", turn("hi", "yo", calls)), eval_set_id="set")
    write(folder.path, "set.evalset.json", json.dumps(document, indent=1))
    return Browser(web)


def call_field(page, index, name):
    return page.one(id=f"field-turns-0-calls-{index}-{name}")


def notes(page, css="warn-text"):
    return {note.attrs["id"]: note.text for note in page.all("p", css=css)}


async def test_tools_of_all_agents_are_offered(browser):
    await declare(TREE)
    page = await browser.get(CASE)
    names = [option.attrs["value"] for option in page.one("datalist", id="agent-tools").all("option")]
    assert names == ["get_weather", "helper", "pack"]
    assert call_field(page, 0, "name").attrs["list"] == "agent-tools"


async def test_unknown_tool_and_argument_are_named_and_still_saved(browser, folder):
    await declare(TREE)
    page = await browser.get(CASE)
    assert notes(page) == {
        "field-turns-0-calls-0-name-note": "The agent has no tool 'get_wether'.",
        "field-turns-0-calls-1-args-note": "get_weather has no argument 'town'.",
    }
    await browser.send("review", turns__0__calls__1__args='{"city": "Paris"}')
    assert list(notes(browser.page)) == ["field-turns-0-calls-0-name-note"]
    assert (
        browser.page.one(id="field-turns-0-calls-1-args-note").text
        == "city: string, days: integer or null, raw"
    )
    await browser.save()
    assert "get_wether" in (folder.path / "set.evalset.json").read_text()


@pytest.mark.parametrize(
    "description",
    [{}, {"tools": []}, {"tools": [LOOKUP, {"name": "McpToolset", "type": "toolset"}]}],
)
async def test_agent_whose_tools_are_not_all_known_gets_no_warning(browser, description):
    await declare(description)
    page = await browser.get(CASE)
    assert "field-turns-0-calls-0-name-note" not in notes(page)


async def test_tools_that_adk_adds_are_known(web, folder):
    document = evalset(
        case("one", turn("hi", "yo", [{"name": "transfer_to_agent", "args": {"agent_name": "x"}}]))
    )
    write(folder.path, "set.evalset.json", document)
    await declare(TREE)
    assert not notes(await Browser(web).get(CASE))


async def test_no_description_has_no_tools(store):
    tools = await units_of_work.read(read_known_tools, "counter")
    assert (dict(tools.arguments), tools.is_complete) == ({}, False)


async def test_rubric_type_is_chosen_from_a_list(browser, folder):
    await declare(TREE)
    await browser.get(CASE)
    page = await browser.send("add:rubrics")
    options = [option.attrs["value"] for option in page.one("select", name="rubrics.0.type").all("option")]
    assert options == ["", "FINAL_RESPONSE_QUALITY", "TOOL_USE_QUALITY", "TRAJECTORY_QUALITY"]
    page = await browser.send("review", status=422, rubrics__0__type="TOOL_USE_QUALITY")
    assert notes(page, "error-text") == {
        "field-rubrics-0-id-note": "Give the rubric an id.",
        "field-rubrics-0-property-note": "Write what is true of a good answer.",
    }
    await browser.send("review", rubrics__0__id="r", rubrics__0__property="It is kind.")
    await browser.save()
    (rubric,) = json.loads((folder.path / "set.evalset.json").read_text())["eval_cases"][0]["rubrics"]
    assert rubric["type"] == "TOOL_USE_QUALITY"


async def test_rubric_type_of_the_file_stays(web, folder):
    rubric = {"rubric_id": "r", "rubric_content": {"text_property": "t"}, "type": "<mine>"}
    write(folder.path, "set.evalset.json", evalset(case("one", turn("hi"), rubrics=[rubric])))
    browser = Browser(web)
    page = await browser.get(CASE)
    assert page.one("select", name="rubrics.0.type").all("option")[-1].attrs["value"] == "<mine>"
    await browser.send("review", turns__0__answer="hello")
    await browser.save()
    saved = json.loads((folder.path / "set.evalset.json").read_text())["eval_cases"][0]
    assert saved["rubrics"] == [rubric]
