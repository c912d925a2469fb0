"""Home page: overview of all agents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from evals_app.models import EvalSet
from sessions_app.agents import cards
from sessions_app.agents import folder as agents
from sessions_app.paths import session_url
from sessions_app.runs import lifecycle as runs
from sessions_app.sessions import first_steps
from sessions_app.store.models import StateChange
from tests.pages.client import Get
from tests.pages.html import Element
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def load(folder: Path, name: str, description: str = "Tells the weather.") -> None:
    """Write an agent's card as its process does."""
    version = agents.open_folder(folder).code_version(name)
    cards.save_loaded(name, version, {"name": name, "description": description})


def fail(
    folder: Path, name: str, error_type: str = "NameError", message: str = "name 'Agnt' is not defined"
) -> None:
    error = {
        "type": error_type,
        "message": message,
        "file": "/agents/writer/agent.py",
        "line": 3,
        "traceback": "Traceback: <agent>",
    }
    cards.save_failure(name, agents.open_folder(folder).code_version(name), error)


def row(page: Element, name: str) -> Element:
    return next(item for item in page.all("li", css="agent") if item.one("h2").text == name)


def test_agents_of_the_folder_are_listed_before_any_is_loaded(get: Get, agents_dir: Path):
    page = get("/")
    assert [item.one("h2").text for item in page.all("li", css="agent")] == ["weather", "writer"]
    assert row(page, "weather").one("span", css="badge").text == "not loaded yet"


def test_folder_with_a_dot_in_its_name_takes_no_page_away(get: Get, agents_dir: Path):
    shutil.copytree(agents_dir / "weather", agents_dir / "weather.bak")
    names = [item.one("h2").text for item in get("/").all("li", css="agent")]
    assert names == ["weather", "weather.bak", "writer"]
    for address in ("/evals/", "/go/", "/agents/weather.bak/", "/evals/?app=weather.bak", "/sessions/"):
        assert get(address).one("h1")


def test_loaded_agent_shows_its_description(get: Get, agents_dir: Path):
    load(agents_dir, "weather", "Tells the <b>weather</b>.")
    about = row(get("/"), "weather").one("div", css="agent-about")
    assert about.one("span", css="badge").text == "ready"
    assert about.one("p", css="soft").text == "Tells the <b>weather</b>."


def test_unloadable_agent_shows_reason_and_location(get: Get, agents_dir: Path):
    fail(agents_dir, "writer")
    about = row(get("/"), "writer").one("div", css="load-error")
    assert "NameError: name 'Agnt' is not defined" in about.text
    assert about.one("code").text == "/agents/writer/agent.py:3"
    assert about.one("details").one("pre").text == "Traceback: <agent>"


@pytest.mark.parametrize(
    ("error_type", "message", "has_hint"),
    [
        (
            "ImportError",
            "Fail to load 'writer' module. cannot import name 'McpToolset' from 'google.adk.tools.mcp_tool'",
            True,
        ),
        ("ModuleNotFoundError", "No module named 'mcp'", True),
        ("ModuleNotFoundError", "No module named 'mcp_servers'", False),
        ("ValueError", "No module named 'mcp'", False),
    ],
)
def test_agent_without_mcp_says_how_to_install_it(
    get: Get, agents_dir: Path, error_type: str, message: str, has_hint: bool
):
    fail(agents_dir, "writer", error_type, message)
    about = row(get("/"), "writer").one("div", css="load-error")
    assert ("pip install 'google-adk[mcp]'" in about.text) is has_hint


def test_an_agent_shows_its_newest_sessions_how_many_and_its_active_runs(get: Get, agents_dir: Path):
    for n in range(5):
        story = Story(f"s{n}")
        story.asks(f"Question {n}")
    runs.create_run(story.pk, {})
    item = row(get("/"), "weather")
    links = [link.text for link in item.one("ul", css="session-links").all("a")]
    assert len(links) == 3
    assert [link.text for link in item.one("p", css="agent-links").all("a")] == [
        "5 sessions",
        "1 active run",
        "State",
        "New session with…",
    ]


def test_an_app_that_left_the_folder_is_still_shown_with_its_sessions(get: Get, agents_dir: Path):
    Story("s1", app="gone")
    item = row(get("/"), "gone")
    assert item.one("span", css="badge").text == "not in the agents folder"
    assert "New session" not in item.text


def test_unloaded_agents_are_requested_one_at_a_time(get: Get, agents_dir: Path):
    check = get("/").one("div", id="agent-check")
    assert (check.attrs["hx-get"], check.attrs["hx-trigger"]) == ("/agent-check/?app=weather", "load")
    load(agents_dir, "weather")
    assert get("/").one("div", id="agent-check").attrs["hx-get"] == "/agent-check/?app=writer"
    load(agents_dir, "writer")
    assert "hx-get" not in get("/").one("div", id="agent-check").attrs


def test_changed_code_makes_a_card_outdated(get: Get, agents_dir: Path):
    load(agents_dir, "weather")
    fail(agents_dir, "writer")
    (agents_dir / "writer" / "agent.py").write_text("root_agent = 1\n")
    page = get("/")
    assert row(page, "writer").one("span", css="badge").text == "not loaded yet"
    assert page.one("div", id="agent-check").attrs["hx-get"] == "/agent-check/?app=writer"


def test_empty_folder_explains_agents(get: Get, no_agents: Path):
    empty = get("/").one("div", css="empty")
    assert empty.one("h2").text == "No agents in this folder"
    assert str(no_agents) in empty.text
    assert empty.one("div", css="command").one("code").text == "python manage.py web path/to/agents"


def test_missing_folder_is_reported(get: Get, settings: Any):
    settings.DEVUI_AGENTS_DIR = "/nowhere/at/all"
    assert get("/").one("div", css="empty").one("h2").text == "No agents folder"


def test_the_number_of_queries_does_not_depend_on_the_number_of_agents(
    client: Client, agents_dir: Path, django_assert_num_queries: DjangoAssertNumQueries
):
    Story("s0")
    for n in range(3):
        for m in range(4):
            shutil.copytree(agents_dir / "weather", agents_dir / f"agent{n}{m}")
            Story("s1", app=f"agent{n}{m}").asks("Hello")
        with django_assert_num_queries(7):
            client.get("/")


def evalset_file(folder: Path, name: str) -> None:
    content = {"eval_set_id": name, "eval_cases": []}
    (folder / "weather" / f"{name}.evalset.json").write_text(json.dumps(content))


def test_the_evalsets_beside_an_agent_are_linked(get: Get, agents_dir: Path):
    evalset_file(agents_dir, "smoke")
    evalset_file(agents_dir, "a b")
    links = row(get("/"), "weather").one("ul", css="evalset-links").all("a")
    assert [(link.text, link.attrs["href"]) for link in links] == [
        ("a b", "/evals/weather/a%20b/"),
        ("smoke", "/evals/weather/smoke/"),
    ]
    assert not row(get("/"), "writer").all("ul", css="evalset-links")


def test_evalset_shows_outcome_of_its_newest_run(get: Get, agents_dir: Path):
    evalset_file(agents_dir, "smoke")
    evalset = EvalSet.objects.create(app_name="weather", evalset_id="smoke")
    version = evalset.versions.create(content="{}", created_at=0.0)
    for n, passed in enumerate((1, 3)):
        facts = {"status": "done", "total": 3, "passed": passed, "created_at": float(n)}
        evalset.runs.create(id=f"r{n}", version=version, app_name="weather", config="{}", **facts)
    link = row(get("/"), "weather").one("ul", css="evalset-links").all("a")[1]
    assert (link.attrs["href"], link.text) == ("/evals/runs/r1/", "passed 3/3")


def test_first_steps_link_to_a_session_that_shows_them(get: Get, agents_dir: Path):
    story = Story("s1")
    story.asks("Weather in Paris?")
    story.says("Sunny.", delta={"city": "Paris"})
    story.asks("And in Rome?")
    story.says("Rainy.", delta={"city": "Rome"})
    steps = get("/").one("section", "first-steps")
    change = StateChange.objects.get(value='"Rome"')
    assert [link.attrs["href"] for link in steps.all("a")] == [
        f"/sessions/id/{story.pk}/events/4/why/",
        f"{session_url(story.session)}?seq=2",
        f"/state/history/{change.pk}/",
        f"/runs/edit/{story.pk}/3/",
    ]


def test_first_steps_of_an_empty_store_are_named_without_links(get: Get, agents_dir: Path):
    page = get("/")
    steps = page.one("section", "first-steps")
    assert len(steps.all("li")) == 4
    assert not steps.all("a")
    assert "0 sessions" not in page.text


def test_store_with_many_sessions_shows_no_first_steps(get: Get, agents_dir: Path):
    for number in range(first_steps.FEW_SESSIONS + 1):
        Story(f"s{number}")
    assert not get("/").all("section", "first-steps")
