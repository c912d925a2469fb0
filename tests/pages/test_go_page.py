"""Page that lists all destinations, and its parts that the command palette loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessions_app.sessions import saved_views
from sessions_app.sessions.listing import find_by_names
from sessions_app.store.sessions import writes
from tests.hostile_ids import HOSTILE_IDS
from tests.pages.client import Get
from tests.pages.html import Element
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def entries(page: Element) -> dict[str, list[str]]:
    """Return the texts of the links under each heading."""
    return {
        section.one("h2").text: [link.text for link in section.all("a")] for section in page.all("section")
    }


def session_ids(text: str) -> list[str]:
    return [session.session_id for session in find_by_names(text, 5)]


def test_the_page_lists_places_newest_sessions_views_and_agents(get: Get, agents_dir: Path):
    Story("s1").asks("Weather in Paris?")
    saved_views.save("Errors of weather", "app=weather&errors_only=1")
    places = entries(get("/go/"))
    assert places["Pages"] == [
        "Agents",
        "Sessions",
        "Problems",
        "Evals",
        "Overview",
        "Trends",
        "Runs",
        "Prices",
        "State",
        "Artifacts",
        "Memory",
    ]
    assert places["Sessions"][0].startswith("Weather in Paris? weather · ann · s1")
    assert places["Saved views"] == ["Errors of weather"]
    assert places["Agents"] == ["weather", "writer"]


def test_typing_narrows_everything_but_places(get: Get, agents_dir: Path):
    Story("s1").asks("tea")
    Story("s2").asks("coffee")
    places = entries(get("/go/?q=weather+TEA"))
    assert len(places["Pages"]) == 11
    assert [text.split()[0] for text in places["Sessions"]] == ["tea"]
    assert "Agents" not in places


def test_page_without_sessions_says_so(get: Get, no_agents: Path):
    assert get("/go/").one("section", data_answers="").one("li").text == "No sessions yet."
    assert get("/go/?q=x").one("section", data_answers="").one("li").text == "No session has that name."


def test_the_palette_asks_for_the_sessions_alone(get: Get, agents_dir: Path, django_assert_num_queries):
    Story("s1").asks("tea")
    with django_assert_num_queries(1):
        part = get("/go/?q=tea", target="go-sessions")
    assert list(entries(part)) == ["Sessions"]


def test_sessions_show_title_user_id_and_app_newest_first():
    old = Story("s1", app="team", user="ben")
    old.asks("Plan a trip")
    new = Story("s2")
    new.asks("Plan a party")
    new.says("sure")
    writes.create_session(writes.SessionKey("", "office", "aya", "s3"), title="Budget 2026", now=1.0)
    assert session_ids("plan") == ["s2", "s1"]
    assert session_ids("plan ben") == ["s1"]
    assert session_ids("team") == ["s1"]
    assert session_ids("budget aya s3") == ["s3"]
    assert session_ids("100%") == session_ids("_") == []
    assert session_ids("") == ["s2", "s1", "s3"]


def test_eval_attempts_are_not_listed():
    Story("s1", realm="eval/1").asks("Plan a trip")
    assert session_ids("") == []


@pytest.mark.parametrize("session_id", HOSTILE_IDS)
def test_session_with_any_id_is_listed_and_linked(get: Get, no_agents: Path, session_id: str):
    Story(session_id).asks("tea")
    [link] = get("/go/?q=tea").one("section", data_answers="").all("a")
    assert link.attrs["href"].startswith("/sessions/")
