"""Lint hints of a session's state: list page, and hints on the state board."""

from __future__ import annotations

import pytest

from sessions_app.store.models import SessionState
from sessions_app.store.sessions import writes
from tests.pages.client import Get
from tests.pages.html import Element, parse
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def hints_url(story: Story) -> str:
    return f"/sessions/id/{story.pk}/state/hints/"


@pytest.fixture
def session_story() -> Story:
    story = Story(initial={"seeded": 1})
    story.says("a", delta={"tmp_rows": [1], "userName": "x", "user_name": "y", "big": "x" * 9000})
    return story


def test_a_page_lists_hints_by_rule_with_evidence_remedy_and_sizes(get: Get, session_story):
    page = get(hints_url(session_story))
    assert [section.one("h2").text for section in page.all("section", "stack")] == [
        "May be about the user 2",
        "May be intermediate data 1",
        "Inconsistent name 2",
        "Large value 1",
    ]
    [item] = [item for item in page.all("li") if item.attrs.get("data-key") == "tmp_rows"]
    assert "stored for the whole session" in item.text
    assert item.one("a").attrs["href"].endswith("?seq=1")
    assert "9.01 kB" in page.text
    assert "enough, which is never stored" in page.text


def test_page_without_hints_says_so(get: Get):
    story = Story()
    story.says("a", delta={"n": 1})
    assert "No hints" in get(hints_url(story)).text


def beside(client, story: Story) -> dict[str, Element]:
    headers = {"HX-Request": "true", "HX-Target": "hints"}
    page = parse(client.get(hints_url(story), headers=headers).content.decode())
    return {part.attrs["data-for"]: part for part in page.all("ul", "hints")}


def test_the_board_gets_hints_and_drift_by_key(client, session_story):
    writes.edit_state(session_story.key, {}, removed=["big"])
    SessionState.objects.filter(key="tmp_rows").update(value="[2]")
    hints_by_key = beside(client, session_story)
    assert set(hints_by_key) == {"tmp_rows", "userName", "user_name"}
    assert "drift: changed by something else than DevUI" in hints_by_key["tmp_rows"].text
    assert "may be intermediate data" in hints_by_key["tmp_rows"].text


def test_seeds_and_other_sessions_writes_are_no_drift_beside_keys(client):
    story, other = Story("s1", {"seeded": 1, "user:seeded": 1}), Story("s2")
    story.says("a", delta={"user:n": 1})
    other.says("x", delta={"user:n": 2})
    writes.edit_state(story.key, {}, removed=["seeded"])
    assert beside(client, story) == {}


@pytest.mark.parametrize("events", [2, 40])
def test_the_number_of_queries_does_not_depend_on_the_length(
    client, session_story, django_assert_max_num_queries, events
):
    for number in range(events):
        session_story.says("x", delta={f"tmp_{number}": 1, "user:x": number})
    with django_assert_max_num_queries(30):
        beside(client, session_story)


def test_hostile_keys_and_values_are_shown_as_text(get: Get):
    story = Story("<s>")
    name = "tmp <img src=x onerror=alert(1)>\u202e"
    story.says("a", delta={name: "</code><script>alert(1)</script>"})
    page = get(hints_url(story))
    assert not page.all("img")
    assert "\u202e" not in page.text
    assert "\\u202e" in page.text


def test_hints_of_deleted_session_are_refused(client):
    assert client.get("/sessions/id/99999/state/hints/").status_code == 404
