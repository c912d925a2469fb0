"""Hints about a session's state: on the page of its problems, and on the state board."""

from __future__ import annotations

import pytest

from sessions_app.problems import session_checks
from sessions_app.search import indexing as search_indexing
from sessions_app.search.execution import session_queries
from sessions_app.search.query.parsing import parse as parse_query
from sessions_app.sessions import deletion
from sessions_app.store.index import index_backlog
from sessions_app.store.models import AgentSession, SessionProblem, SessionState
from sessions_app.store.sessions import writes
from tests.pages.client import Get
from tests.pages.html import Element, parse
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def hints_url(story: Story) -> str:
    return f"/sessions/id/{story.pk}/problems/?scope=state"


def check() -> None:
    """Index and check all sessions, as the web process does."""
    search_indexing.index_all()
    session_checks.check_all()


@pytest.fixture
def session_story() -> Story:
    story = Story(initial={"seeded": 1})
    story.says("a", delta={"tmp_rows": [1], "userName": "x", "user_name": "y", "big": "x" * 9000})
    check()
    return story


def test_a_page_lists_hints_by_rule_with_evidence_remedy_and_sizes(get: Get, session_story):
    page = get(hints_url(session_story))
    assert [
        section.one("h3").text for section in page.all("section", "stack") if "data-rule" in section.attrs
    ] == [
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
    check()
    assert "No hints" in get(hints_url(story)).text


def beside(client, story: Story) -> dict[str, Element]:
    headers = {"HX-Request": "true", "HX-Target": "hints"}
    page = parse(client.get(hints_url(story), headers=headers).content.decode())
    return {part.attrs["data-for"]: part for part in page.all("ul", "hints")}


def test_the_board_gets_hints_and_drift_by_key(client, session_story):
    writes.edit_state(session_story.key, {}, removed=["big"])
    SessionState.objects.filter(key="tmp_rows").update(value="[2]")
    check()
    hints_by_key = beside(client, session_story)
    assert set(hints_by_key) == {"tmp_rows", "userName", "user_name"}
    assert "drift: changed by something else than DevUI" in hints_by_key["tmp_rows"].text
    assert "May be intermediate data" in hints_by_key["tmp_rows"].text


def test_hint_goes_when_its_key_is_removed(client, session_story):
    assert "tmp_rows" in beside(client, session_story)
    writes.edit_state(session_story.key, {}, removed=["tmp_rows"])
    check()
    assert "tmp_rows" not in beside(client, session_story)


def test_hint_that_other_sessions_cause_comes_with_the_next_check(client):
    story, other = Story("s1"), Story("s2", user="bob")
    story.says("a", delta={"app:theme": "dark"})
    check()
    other.says("b", delta={"app:theme": "light"})
    check()
    assert beside(client, story) == {}
    index_backlog.recheck(story.pk, "")
    check()
    assert list(beside(client, story)) == ["app:theme"]


def test_links_of_a_hint_name_other_sessions_and_deleted_ones(get: Get):
    story, other = Story("s1"), Story("s2", user="bob")
    story.says("a", delta={"app:theme": "dark"})
    other.says("b", delta={"app:theme": "light"})
    index_backlog.recheck(story.pk, "")
    check()
    links = get(hints_url(story)).one("p", "problem-links").all("a")
    assert [(link.text, link.attrs["href"]) for link in links] == [
        ("event 1 of s2", f"/sessions/id/{other.pk}/?seq=1"),
        ("event 1", "/sessions/weather/ann/s1/?seq=1"),
    ]

    for delete in (lambda: deletion.delete([other.pk]), lambda: deletion.delete_for_good(other.pk)):
        delete()  # first so that it can be undone
        [link] = get(hints_url(story)).one("p", "problem-links").all("a")
        assert link.text == "event 1"
        assert "s2, deleted" in get(hints_url(story)).text


def test_only_lists_that_may_have_hints_show_the_state(get: Get, session_story):
    assert "Hints of the last check" in get(hints_url(session_story)).text
    for query in ("code=tool-error", "invocation=i1", "scope=invocation"):
        page = get(f"/sessions/id/{session_story.pk}/problems/?{query}")
        assert "last check" not in page.text


def test_state_without_hints_says_when_it_was_checked(get: Get):
    story = Story()
    story.says("a", delta={"city": "Rome"})
    check()
    page = get(f"/sessions/id/{story.pk}/problems/")
    assert "The last check, at event 1, found no hints." in " ".join(page.text.split())


def test_hints_of_many_keys_are_all_stored(client):
    story = Story()
    story.says("a", delta={f"tmp_{number}": 1 for number in range(120)})
    check()
    assert len(beside(client, story)) == 120


def test_hints_that_are_only_counted_are_named_as_more(get: Get):
    story = Story()
    story.says("a", delta={f"large_{number}": "x" * 9000 for number in range(290)})
    story.says("b", delta={f"user:{number}": "x" * 9000 for number in range(40)})
    check()
    stored = SessionProblem.objects.filter(session=story.pk)
    counted = sum(stored.values_list("more", flat=True))
    assert counted
    assert f"And {counted} more like it." in get(hints_url(story)).text


def test_search_finds_sessions_by_their_hints(session_story):
    matches = session_queries.Search(parse_query("problem:intermediate")).filter_rows(
        AgentSession.objects.all()
    )
    assert [session.pk for session in matches] == [session_story.pk]
    assert session_story.session.problem_count == 0


def test_former_address_of_hints_redirects(client, session_story):
    answer = client.get(f"/sessions/id/{session_story.pk}/state/hints/")
    assert (answer.status_code, answer.headers["Location"]) == (302, hints_url(session_story))


def test_seeds_and_other_sessions_writes_are_no_drift_beside_keys(client):
    story, other = Story("s1", {"seeded": 1, "user:seeded": 1}), Story("s2")
    story.says("a", delta={"user:n": 1})
    other.says("x", delta={"user:n": 2})
    writes.edit_state(story.key, {}, removed=["seeded"])
    check()
    assert beside(client, story) == {}


@pytest.mark.parametrize("events", [2, 40])
def test_the_number_of_queries_does_not_depend_on_the_length(
    client, session_story, django_assert_max_num_queries, events
):
    for number in range(events):
        session_story.says("x", delta={f"tmp_{number}": 1, "user:x": number})
    check()
    with django_assert_max_num_queries(26):
        beside(client, session_story)


def test_hostile_keys_and_values_are_shown_as_text(get: Get):
    story = Story("<s>")
    name = "tmp <img src=x onerror=alert(1)>\u202e"
    story.says("a", delta={name: "</code><script>alert(1)</script>"})
    check()
    page = get(hints_url(story))
    assert not page.all("img")
    assert "\u202e" not in page.text
    assert "\\u202e" in page.text


def test_hints_of_deleted_session_are_refused(client):
    assert client.get("/sessions/id/99999/problems/?scope=state").status_code == 404
