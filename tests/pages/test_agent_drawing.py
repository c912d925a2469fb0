"""Drawing of an agent: boxes, edges, the path of an invocation, notes about its code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from sessions_app.agents import cards, folder
from sessions_app.agents.page.description import prepare_description, source_location
from sessions_app.agents.page.drawing import MAX_BOXES, MAX_TOOLS, Drawing, draw, truncate_to_cells
from tests.pages.client import Get
from tests.pages.html import parse
from tests.pages.workflows import describe_workflow
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store", "agents_dir")

TEAM = {
    "name": "lead",
    "type": "LlmAgent",
    "at": {"file": "/agents/team/agent.py", "line": 9},
    "tools": [
        {"name": "look_up", "context": "tool_context", "at": {"file": "/agents/team/tools.py", "line": 3}}
    ],
    "callbacks": {"before_tool_callback": [{"name": "check", "at": {}}]},
    "sub_agents": [
        {
            "name": "line",
            "type": "SequentialAgent",
            "sub_agents": [{"name": "first", "type": "LlmAgent"}, {"name": "second", "type": "LlmAgent"}],
        },
        {"name": "other", "type": "LlmAgent"},
    ],
    "code": {"git": "0123456789abcdef+", "adk": "2.13.0"},
}


def columns(drawing: Drawing) -> dict[str, int]:
    return {box.name: box.column for box in drawing.boxes}


def load(agents_dir: Path, tree: dict[str, Any]) -> None:
    cards.save_loaded("weather", folder.open_folder(agents_dir).code_version("weather"), tree)


def test_a_tree_is_drawn_in_columns_and_never_on_top_of_itself():
    drawing = draw(prepare_description(TEAM))
    assert columns(drawing) == {"lead": 0, "look_up": 1, "line": 1, "first": 2, "second": 2, "other": 1}
    assert len({(box.column, box.row) for box in drawing.boxes}) == len(drawing.boxes)
    assert [box.note for box in drawing.boxes if box.name in {"first", "second"}] == [
        "1. LlmAgent",
        "2. LlmAgent",
    ]


def test_join_node_is_behind_all_its_predecessors():
    drawing = draw(
        prepare_description(describe_workflow(("__START__", "a"), ("a", "b"), ("b", "end"), ("a", "end")))
    )
    assert columns(drawing) == {"flow": 0, "__START__": 1, "a": 2, "b": 3, "end": 4}


def test_back_edges_are_marked_and_move_nothing():
    drawing = draw(
        prepare_description(describe_workflow(("__START__", "a"), ("a", "b"), ("b", "a"), ("b", "b")))
    )
    back = [(line.start.name, line.end.name) for line in drawing.lines if line.leads_back]
    assert back == [("b", "a"), ("b", "b")]
    assert columns(drawing)["b"] == 3


def test_edges_to_unknown_nodes_are_left_out():
    workflow = describe_workflow(("__START__", "a"))
    workflow["edges"].append({"from": "a", "to": "nobody", "route": "x"})
    assert [line.end.name for line in draw(prepare_description(workflow)).lines if line.is_flow] == ["a"]


def test_a_drawing_has_room_for_so_much():
    many = {"name": "root", "tools": [{"name": f"t{n}"} for n in range(30)], "sub_agents": []}
    many["sub_agents"] = [{"name": f"a{n}", "type": "LlmAgent"} for n in range(200)]
    drawing = draw(prepare_description(many))
    assert (len(drawing.boxes), drawing.omitted_count) == (MAX_BOXES, 231 - MAX_BOXES)


def test_drawing_counts_tools_that_it_omits():
    tools = [{"name": f"tool_{number}"} for number in range(100)]
    drawing = draw(prepare_description({"name": "lead", "tools": tools}))
    assert drawing.omitted_count == 100 - MAX_TOOLS
    assert len([box for box in drawing.boxes if box.shape == "tool"]) == MAX_TOOLS


def test_all_tools_are_drawn_if_they_are_few_or_asked_for(get: Get, agents_dir: Path):
    def count_tools(drawing: Drawing) -> int:
        return len([box for box in drawing.boxes if box.shape == "tool"])

    sixteen = {"name": "lead", "tools": [{"name": f"tool_{number}"} for number in range(16)]}
    assert count_tools(draw(prepare_description(sixteen))) == 16
    many = {"name": "lead", "type": "LlmAgent", "tools": [{"name": f"tool_{number}"} for number in range(40)]}
    assert count_tools(draw(prepare_description(many), all_tools=True)) == 40
    load(agents_dir, many)
    link = get("/agents/weather/").one("figcaption").one("a")
    assert (link.text, link.attrs["href"]) == ("Draw all tools", "?tools=all")
    page = get("/agents/weather/?tools=all")
    assert "not drawn" not in page.one("figcaption").text
    assert len(page.one("figure").one("svg", role="group").all("a")) == 41


def test_agents_used_as_tools_are_always_drawn_and_called_tools_before_others():
    tools: list[dict[str, Any]] = [{"name": f"tool_{number}"} for number in range(40)]
    tools[30]["agent"] = {"name": "helper", "type": "LlmAgent"}
    lead = {"name": "lead", "type": "LlmAgent", "tools": tools}
    drawing = draw(prepare_description(lead), ["lead"], {"lead": {"tool_39"}})
    names = [box.name for box in drawing.boxes if box.shape == "tool"]
    assert names == ["tool_0", "tool_1", "tool_2", "tool_3", "tool_30", "tool_39"]
    assert "helper" in columns(drawing)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("short", "short"), ("a" * 17, "a" * 15 + "…"), ("日本語日本語日本語", "日本語日本語日…"), ("", "")],
)
def test_a_name_is_cut_by_the_room_it_takes(text: str, expected: str):
    assert truncate_to_cells(text, 16) == expected


def test_source_location_is_shortened():
    own = source_location({"file": "/agents/te am/a?b.py", "line": 3}, "/agents")
    assert own is not None
    assert (own.label, own.path) == ("te am/a?b.py:3", "/agents/te am/a?b.py:3")
    assert own.editor == "vscode://file/agents/te%20am/a%3Fb.py:3"
    library = source_location({"file": "/venv/lib/site-packages/google/adk/x.py", "line": 1}, "/agents")
    assert library is not None
    assert library.label == "google/adk/x.py:1"
    assert source_location({}, "/agents") is None


def tell(story: Story) -> None:
    story.add({"text": "Hello"}, author="user")
    story.add({"functionCall": {"id": "c1", "name": "look_up", "args": {}}}, author="lead")
    story.add({"text": "one"}, author="first")
    story.add({"text": "two"}, author="second")


def test_path_of_an_invocation_is_marked(get: Get, agents_dir: Path):
    load(agents_dir, TEAM)
    story = Story("s1")
    tell(story)

    page = get(f"/agents/weather/?session={story.pk}&invocation=i1")

    boxes = {
        box.one("title").text: "on-path" in box.attrs["class"]
        for box in page.one("figure").one("svg", role="group").all("a")
    }
    assert boxes == {
        "Agent lead, step 1": True,
        "Tool look_up, called": True,
        "Agent line": True,
        "Agent first, step 2": True,
        "Agent second, step 3": True,
        "Agent other": False,
    }
    assert "lead → first → second" in page.one("figcaption").text


def test_workflow_nodes_and_agents_match_by_own_name(get: Get, agents_dir: Path):
    load(agents_dir, describe_workflow(("__START__", "a"), ("a", "b")))
    story = Story("s1")
    for author, path in [("flow", "flow@1/a@1"), ("flow", "flow@1/b@2"), ("deep", "lead@1/line@1")]:
        story.add({"text": "said"}, author=author, nodeInfo={"path": path})
    assert "a → b → deep" in get(f"/agents/weather/?session={story.pk}&invocation=i1").one("figcaption").text


def visit_nodes(story: Story, *paths: str) -> None:
    for path in paths:
        story.add({"text": "said"}, author="flow", nodeInfo={"path": path})


def test_every_visit_of_a_workflow_node_has_a_number(get: Get, agents_dir: Path):
    load(agents_dir, describe_workflow(("__START__", "a"), ("a", "b"), ("b", "a"), ("b", "end")))
    story = Story("s1")
    visit_nodes(story, "flow@1/a@1", "flow@1/a@1", "flow@1/b@1", "flow@1/a@2", "flow@1/a@3", "flow@1/b@2")
    page = get(f"/agents/weather/?session={story.pk}&invocation=i1")
    assert "a → b → a → a → b" in page.one("figcaption").text
    titles = [box.one("title").text for box in page.one("figure").one("svg", role="group").all("a")]
    assert {"Agent a, steps 1, 3, 4", "Agent b, steps 2, 5", "Agent end"} <= set(titles)


def test_many_visits_of_a_node_are_cut_in_the_drawing():
    tree = prepare_description(describe_workflow(("__START__", "a"), ("a", "a")))
    [box] = [box for box in draw(tree, ["a"] * 30).boxes if box.name == "a"]
    assert box.step_text == "1, 2, 3, 4, …"


def test_session_page_names_workflow_nodes_and_links_to_their_path(get: Get):
    story = Story("s1")
    visit_nodes(story, "flow@1/a@1", "flow@1/a@2")
    page = get(f"/sessions/id/{story.pk}/")
    assert [badge.text for badge in page.all("span", class_="badge") if badge.text.startswith("node")] == [
        "node a",
        "node a, run 2",
    ]
    link = page.one("h2", css="invocation-head").one("a")
    assert link.attrs["href"] == f"/agents/weather/?session={story.pk}&invocation=i1"


def test_invocation_of_one_agent_has_no_link_to_a_path(get: Get):
    story = Story("s1")
    story.asks("Hi")
    story.add({"text": "Hello"}, author="lead")
    assert get(f"/sessions/id/{story.pk}/").one("h2", css="invocation-head").all("a") == []


def test_invocation_is_linked_from_newest_sessions(get: Get, agents_dir: Path):
    load(agents_dir, TEAM)
    story = Story("s1")
    tell(story)
    links = [link.attrs["href"] for link in get("/agents/weather/").one("aside").all("a")]
    assert f"?session={story.pk}&invocation=i1" in links
    assert "Path of invocation i1" in get("/agents/weather/?invocation=i1").one("figcaption").text


@pytest.mark.parametrize("query", ["invocation=none", "session=7&invocation=i1", "session=9%20&invocation=x"])
def test_unknown_invocation_is_reported(get: Get, agents_dir: Path, query: str):
    load(agents_dir, TEAM)
    assert "None of the newest sessions" in get(f"/agents/weather/?{query}").one("figcaption").text


def test_session_of_another_app_is_not_searched(get: Get, agents_dir: Path):
    load(agents_dir, TEAM)
    other = Story("s1", app="writer")
    tell(other)
    caption = get(f"/agents/weather/?session={other.pk}&invocation=i1").one("figcaption").text
    assert "None of the newest sessions" in caption


def test_page_needs_constant_number_of_queries(client: Client, agents_dir: Path):
    story = Story("s1")
    tell(story)
    counts = []
    for tree in ({"name": "alone", "type": "LlmAgent"}, TEAM):
        load(agents_dir, tree)
        with CaptureQueriesContext(connection) as queries:
            client.get(f"/agents/weather/?session={story.pk}&invocation=i1")
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 12


def test_every_box_links_to_its_description(get: Get, agents_dir: Path):
    load(agents_dir, TEAM)
    page = get("/agents/weather/")
    anchors = [
        box.attrs["href"].removeprefix("#") for box in page.one("figure").one("svg", role="group").all("a")
    ]
    assert len(set(anchors)) == 6
    for anchor in anchors:
        assert page.one(id=anchor)


def test_names_of_any_characters_are_shown_and_break_nothing(get: Get, agents_dir: Path):
    name = "</svg><b>\x00\u202e\ud800\"'" + "x" * 300
    load(agents_dir, {"name": name, "type": name, "tools": [{"name": name}], "sub_agents": [{"name": name}]})
    page = get("/agents/weather/")
    assert len(page.one("figure").one("svg", role="group").all("a")) == 3
    assert not page.one("figure").all("b")


def test_source_links_open_editor_only_on_same_machine(client: Client, agents_dir: Path):
    load(agents_dir, TEAM)
    link = b'href="vscode://file/agents/team/agent.py:9"'
    assert link in client.get("/agents/weather/", headers={"host": "localhost"}).content
    far = client.get("/agents/weather/").content
    assert b"vscode:" not in far
    assert (
        parse(far).one("details", id="agent-0").all("button")[0].attrs["data-copy"]
        == "/agents/team/agent.py:9"
    )


def test_page_shows_loaded_code_version_and_changes(get: Get, agents_dir: Path):
    load(agents_dir, TEAM)
    before = folder.open_folder(agents_dir).code_version("weather")
    text = get("/agents/weather/").one("p", css="agent-version").text
    assert before in text
    assert "0123456789" in text
    assert "with changes" in text
    assert "changed since" not in text

    (agents_dir / "weather" / "agent.py").write_text("x = 1\n")
    text = get("/agents/weather/").one("p", css="agent-version").text
    assert "The files have changed since" in text
    assert folder.open_folder(agents_dir).code_version("weather") in text


def test_context_and_permissions_of_each_hook_are_shown(get: Get, agents_dir: Path):
    load(agents_dir, {**TEAM, "instruction_provider": "instruct"})
    text = get("/agents/weather/").one("div", id="agent-card").text
    assert "ToolContext" in text
    assert "ReadonlyContext changes nothing" in text
    assert "may change the arguments; a result it returns is taken, and the tool is not called" in text
