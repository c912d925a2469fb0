"""The page that lists the problems of all sessions, and the navigation that leads there."""

from __future__ import annotations

import time

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from sessions_app.paths import session_url
from sessions_app.problems.problem_groups import RECENT_S
from sessions_app.store.models import AgentSession, SessionProblem
from tests.pages.client import Get
from tests.pages.html import Element
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def add_problem(story: Story, code: str = "tool-error", severity: str = "error", more: int = 0) -> None:
    SessionProblem.objects.create(
        session_id=story.pk, code=code, severity=severity, seq=1, text="It failed.", more=more
    )


def make_recent(*stories: Story) -> None:
    AgentSession.objects.filter(pk__in=[story.pk for story in stories]).update(updated_at=time.time())


def rows(page: Element) -> list[list[str]]:
    """Return title, app, recent sessions, sessions and problems of each row."""
    lines = page.one("tbody", id="problems-rows").all("tr")
    cells = [[line.one("a", "row-link").text, *(cell.text for cell in line.all("td"))] for line in lines]
    return [[title, app, recent, sessions, count] for title, _, app, recent, sessions, count, _ in cells]


def test_problems_are_grouped_by_kind_and_app(get: Get):
    first, second, other = Story("s1"), Story("s2"), Story("s3", app="writer")
    for story in (first, first, second, other):
        add_problem(story)
    add_problem(first, "empty-answer", "warning", more=3)
    make_recent(first, other)
    page = get("/problems/")
    assert sorted(rows(page)) == sorted(
        [
            ["Tool failed", "weather", "1", "2", "3"],
            ["Tool failed", "writer", "1", "1", "1"],
            [rows(get("/problems/?sort=-count"))[0][0], "weather", "1", "1", "4"],
        ]
    )
    link = page.one("tbody", id="problems-rows").all("a", "row-link")[0]
    assert "q=problem%3A" in link.attrs["href"]


def test_notes_and_sessions_of_realms_are_left_out(get: Get):
    add_problem(Story("s1"), severity="note")
    add_problem(Story("s2", realm="eval/1"))
    assert "No problems found" in get("/problems/").one("div", css="empty").text


def test_newest_problem_opens_at_its_event(get: Get):
    story = Story("s1")
    add_problem(story)
    when = get("/problems/").one("tbody", id="problems-rows").all("td")[-1].one("a")
    assert when.attrs["href"] == f"{session_url(story.session)}?seq=1"


def test_old_sessions_count_but_not_as_recent(get: Get):
    story = Story("s1")
    add_problem(story)
    AgentSession.objects.update(updated_at=time.time() - RECENT_S - 60)
    assert rows(get("/problems/"))[0][2:] == ["0", "1", "1"]


def test_list_of_an_app_has_only_its_problems(get: Get):
    add_problem(Story("s1"))
    add_problem(Story("s2", app="writer"))
    assert [row[1] for row in rows(get("/problems/?app=writer"))] == ["writer"]
    assert "No session of this app has a problem." in get("/problems/?app=nobody").text


def test_problems_are_downloaded_as_csv(client: Client):
    add_problem(Story("s1"))
    lines = client.get("/problems/csv/").content.decode("utf-8-sig").splitlines()
    assert lines[0] == "problem,severity,app,recent,sessions,count,newest"
    assert lines[1].startswith("Tool failed,error,weather,")


def test_unknown_order_is_refused(get: Get):
    get("/problems/?sort=nothing", status=400)


def test_number_of_queries_does_not_grow(client: Client, django_assert_num_queries: DjangoAssertNumQueries):
    for number in range(3):
        for code in ("tool-error", f"kind-{number}"):
            add_problem(Story(f"s{number}{code}", app=f"app{number}"), code)
        with django_assert_num_queries(2):
            client.get("/problems/")


@pytest.mark.parametrize(
    ("address", "group", "current"),
    [("/runs/", "Monitor", "Runs"), ("/evals/prices/", "Monitor", "Prices"), ("/memory/", "Data", "Memory")],
)
def test_each_page_of_a_group_lists_the_pages_of_the_group(get: Get, address: str, group: str, current: str):
    page = get(address)
    assert page.one("nav", css="places").one("a", aria_current="true").text == group
    shown = [nav for nav in page.all("nav", "subplaces") if "hidden" not in nav.attrs]
    assert [nav.attrs["aria-label"] for nav in shown] == [group]
    assert shown[0].one("a", aria_current="page").text == current


def test_session_page_shows_no_second_navigation(get: Get):
    page = get(session_url(Story("s1").session))
    assert all("hidden" in nav.attrs for nav in page.all("nav", "subplaces"))
