"""Difference between the state at two points in time, on the session page."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions_app.presentation import value_diff
from sessions_app.state.state_board import read_board
from sessions_app.state.state_difference import state_differences
from sessions_app.store import scopes
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import AgentSession, Event, Scope
from sessions_app.store.sessions import writes
from sessions_app.store.state import differences
from sessions_app.store.state import history as history
from tests.pages.client import Get
from tests.pages.html import parse
from tests.timeline.story import Story, many_keys


def difference_rows(
    story: Story, base: str, seq: int | None = None
) -> list[tuple[str, str, str | None, str | None]]:
    difference = state_differences(story.session, base, story.event(seq) if seq else None)
    return [(entry.name, entry.change, entry.old, entry.new) for entry in difference.entries]


@pytest.fixture
def moved_story(db) -> Story:
    story = Story(initial={"city": "Rome", "app:motd": "hi"})
    story.says("a", delta={"city": "Paris", "user:unit": "C"})
    story.says("b", delta={"city": "Oslo", "same": 1})
    writes.edit_state(story.key, {"same": 1}, removed=["user:unit"])
    return story


def test_two_events_are_compared_whichever_is_open(moved_story):
    later = [
        ("city", "changed", '"Paris"', '"Oslo"'),
        ("same", "added", None, "1"),
        ("user:unit", "removed", '"C"', None),
    ]
    assert difference_rows(moved_story, "1", 3) == later
    assert difference_rows(moved_story, "3", 1) == later
    assert difference_rows(moved_story, "now", 1) == difference_rows(moved_story, "1") == later


def test_start_is_the_state_before_the_first_event(moved_story):
    assert difference_rows(moved_story, "0", 1) == [
        ("city", "changed", '"Rome"', '"Paris"'),
        ("user:unit", "added", None, '"C"'),
    ]


def test_start_includes_earlier_shared_state(db):
    before = Story("s0", {"app:motd": "old", "user:unit": "C"})
    story = Story("s1")
    before.says("x", delta={"app:motd": "new"})
    story.says("a", delta={"app:motd": "mine"})
    before.says("y", delta={"user:unit": "F"})
    assert difference_rows(story, "0", 1) == [("app:motd", "changed", '"new"', '"mine"')]
    assert difference_rows(story, "0") == [
        ("user:unit", "changed", '"C"', '"F"'),
        ("app:motd", "changed", '"new"', '"mine"'),
    ]


def test_equal_points_and_rewritten_values_do_not_differ(moved_story):
    assert difference_rows(moved_story, "2", 2) == difference_rows(moved_story, "now") == []
    moved_story.says("again", delta={"city": "Oslo"})
    assert difference_rows(moved_story, "3", 4) == []


@pytest.mark.parametrize("base", ["-1", "x", "1.5", "", "9" * 30])
def test_invalid_point_in_time_is_refused(moved_story, base):
    with pytest.raises(BadInput):
        state_differences(moved_story.session, base, None)


def test_an_event_that_does_not_exist_is_named(moved_story):
    with pytest.raises(NotFound, match="no event 9"):
        state_differences(moved_story.session, "9", None)


@pytest.mark.parametrize("events", [3, 60])
def test_a_comparison_costs_the_same_number_of_queries_at_any_length(db, django_assert_num_queries, events):
    story = Story()
    for number in range(events):
        story.says("x", delta={"n": number, "user:n": number, "app:n": number})
    session, event = story.session, story.event(events)
    with django_assert_num_queries(14):
        assert len(state_differences(session, "1", event).entries) == 3


NAMES = ["a", "b", "user:a", "app:a"]
programs = st.lists(
    st.tuples(
        st.sampled_from([0, 1]), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), max_size=3)
    ),
    min_size=1,
    max_size=12,
)


@settings(
    max_examples=settings.default.max_examples // 7,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(program=programs, seeds=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2)))
def test_the_difference_is_that_of_the_two_states(db, program, seeds):
    """Whatever two sessions of a user write, a difference says what the states at its ends say."""
    AgentSession.objects.all().delete()
    app = f"app{AgentSession.objects.count()}{id(program)}"
    stories = [Story("s1", seeds, app=app), Story("s2", app=app)]
    for which, delta in program:
        stories[which].says("x", delta=delta)
    story = stories[0]
    states = {
        seq: history.state_at(story.session, story.event(seq)).merge_scopes()
        for seq in range(1, story.told + 1)
    }
    states[story.told + 1] = history.state_at(story.session).merge_scopes()
    for first in range(1, story.told + 1):
        for last in range(first, story.told + 2):
            event = story.event(last) if last <= story.told else None
            keys = differences.diff(story.session, story.event(first), event).keys
            missing = object()
            expected = {
                name
                for name in states[first].keys() | states[last].keys()
                if states[first].get(name, missing) != states[last].get(name, missing)
            }
            assert {entry.name for entry in keys} == expected


def test_the_page_shows_the_difference_in_place_of_the_state(moved_story, client: Client):
    page = parse(client.get(f"/sessions/id/{moved_story.pk}/?seq=3&diff=1").content)
    assert page.one("h2", id="board-title").text == "Event 1 → event 3"
    changes = {
        entry.attrs["data-key"]: entry.one("p", "value-change").text for entry in page.all("li", "entry")
    }
    assert changes == {
        "city": '"Paris" → "Oslo"',
        "same": "no value → 1",
        "user:unit": '"C" → no value',
    }
    assert page.one("a", data_compare="").attrs["href"] == "?seq=3"


def test_board_offers_points_in_time_to_compare(moved_story, client: Client):
    page = parse(client.get(f"/sessions/id/{moved_story.pk}/?seq=3").content)
    links = [(link.attrs["href"], link.text) for link in page.all("a") if "data-compare" in link.attrs]
    assert links == [
        ("?diff=0&seq=3", "the start"),
        ("?diff=2&seq=3", "event 2, just before"),
        ("?diff=now&seq=3", "now"),
    ]


@pytest.mark.parametrize(("query", "status"), [("diff=nonsense", 400), ("diff=99", 404)])
def test_invalid_point_in_time_is_an_error_page(moved_story, client: Client, query, status):
    assert client.get(f"/sessions/id/{moved_story.pk}/?{query}").status_code == status


@pytest.mark.usefixtures("low_key_limit")
@pytest.mark.parametrize("others", [{}, many_keys("app:")], ids=["few keys", "very many keys"])
def test_very_many_differences_are_read_page_by_page(db, get, others):
    story = Story("pages", others)
    story.says("before")
    story.says("after", delta={"own": 1, **{f"app:k{number:03}": number for number in range(70)}})
    query, all_keys = "?diff=1&seq=2", []
    for _ in range(5):
        board = get(f"/sessions/id/{story.pk}/{query}").one("section", "difference")
        page_keys = [entry.attrs["data-key"] for entry in board.all("li", "entry")]
        assert "own" in page_keys
        assert "71 keys differ" in board.text
        all_keys += [key for key in page_keys if key != "own"]
        following = [link for link in board.all("a") if link.text == "Next app keys"]
        if not following:
            break
        query = following[0].attrs["href"]
    assert all_keys == [f"app:k{number:03}" for number in range(70)]


@pytest.mark.parametrize("query", ["diff=99", "seq=2&diff=99"])
def test_missing_point_in_time_links_to_the_nearest_event(moved_story, client: Client, query):
    page = parse(client.get(f"/sessions/id/{moved_story.pk}/?{query}").content)
    assert "has no event 99" in page.one("h1").text
    assert page.one("a", "button-primary").attrs["href"].endswith("?seq=3")


def test_long_values_are_compared_line_by_line():
    old = '{"a":' + str(list(range(60))) + ',"b":1}'
    new = '{"a":' + str([*range(30), 99, *range(31, 60)]) + ',"b":1}'
    assert not value_diff.is_brief(old, new)
    lines = value_diff.diff_lines(old, new)
    assert [(line.mark, line.text.strip()) for line in lines if line.mark in {"added", "removed"}] == [
        ("removed", "30,"),
        ("added", "99,"),
    ]
    assert len(lines) == 10


def test_text_is_compared_by_its_lines_and_sentences():
    sentences = [f"This is sentence number {number} of a long paragraph. " for number in range(20)]
    changed = [*sentences[:5], "Here is another one. ", *sentences[6:]]
    old, new = (f'"{"".join(text)}"' for text in (sentences, changed))
    marks = [
        (line.mark, line.text)
        for line in value_diff.diff_lines(old, new)
        if line.mark in {"added", "removed"}
    ]
    assert marks == [("removed", sentences[5]), ("added", "Here is another one. ")]


def test_too_long_values_are_compared_in_part_with_a_note():
    old, new = (f'"{letter * 500_000}"' for letter in "ab")
    lines = value_diff.diff_lines(old, new)
    assert lines[-1].text.startswith("Only the beginnings")
    assert {line.mark for line in lines} == {"removed", "added", "skipped"}


def test_text_that_becomes_a_number_shows_its_quotes():
    assert [line.text for line in value_diff.diff_lines('"1"', "1")] == ['"1"', "1"]


@pytest.mark.usefixtures("low_key_limit")
@pytest.mark.parametrize("others", [{}, many_keys()], ids=["few keys", "very many keys"])
def test_of_many_keys_that_differ_some_are_shown_and_all_are_counted(db, others):
    story = Story(initial={"k0": 0, "k1": "as before", **others})
    story.says("a", delta={"k0": 0, "user:u": 1, **{f"n{number}": number for number in range(5)}})
    difference = state_differences(story.session, "0", None, limit=2)
    assert [entry.name for entry in difference.entries] == ["n0", "n1", "user:u"]
    assert (difference.count, difference.hidden) == (6, 3)
    assert difference.tabs() == [("merged", 6), ("session", 5), ("user", 1), ("app", 0)]


def test_the_state_now_is_compared_with_an_event_on_the_page(get: Get, moved_story):
    page = get(f"/sessions/id/{moved_story.pk}/?diff=1")
    assert page.one("h2", id="board-title").text == "Event 1 → now"
    assert "Difference between the state now and" in page.one("section", "difference").text


@pytest.mark.usefixtures("low_key_limit")
@pytest.mark.parametrize("others", [{}, many_keys("user:")], ids=["few keys", "very many keys"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shared_key_counts_agree_with_naive_comparison(db, others, seed):
    random = Random(seed)
    story, other = Story("s1", others), Story("s2")
    for _ in range(4 if others else 7):  # all pairs of events are compared
        delta = {
            f"{random.choice(['user:', 'app:'])}k{random.randrange(9)}": random.randrange(2) for _ in range(3)
        }
        random.choice([story, other]).says("x", delta=delta)
        user_keys = sorted(history.state_at(story.session).values(Scope.USER).keys() - many_keys())
        if user_keys and random.random() < 0.5:
            writes.edit_state(story.key, {}, removed=[f"user:{random.choice(user_keys)}"])
            story.told += 1
        story.says("between")
    session = story.session
    at = {seq: plainly(session, story.event(seq)) for seq in range(1, story.told + 1)}
    for first, last in itertools.combinations(at, 2):
        changed = {
            name for name in at[first].keys() | at[last].keys() if at[first].get(name) != at[last].get(name)
        }
        difference = differences.diff(session, story.event(first), story.event(last), limit=1)
        assert sum(difference.counts.values()) == len(changed)
        assert {key.name for key in difference.keys} == {
            min(of_scope)
            for prefix in ("user:", "app:")
            if (of_scope := [name for name in changed if name.startswith(prefix)])
        }
    now = plainly(session)
    for seq, then in at.items():
        board = read_board(session, story.event(seq), limit=1)
        assert dict(board.tabs())["merged"] == len(then)
        assert board.changed_since == sum(
            then.get(name) != now.get(name) for name in then.keys() | now.keys()
        )
        assert len(board.entries) + len(board.later) + board.hidden == len(then.keys() | now.keys())


def plainly(session: AgentSession, event: Event | None = None) -> dict[str, str | None]:
    """Return the JSON of every shared key at an event, or now, by its name."""
    state = history.state_at(session, event)
    return {scopes.PREFIX[scope] + row.key: row.value for scope, rows in state.scopes() for row in rows}


@pytest.mark.usefixtures("low_key_limit")
def test_counting_many_changed_keys_needs_constant_queries(db, django_assert_num_queries):
    story = Story("s1", many_keys("user:"))
    story.says("a", delta={"user:k0": 0, "user:k1": 1})
    for many in (5, 50):
        story.says("b", delta={f"user:k{number}": many for number in range(many)})
        session, event = story.session, story.event(1)
        with django_assert_num_queries(8):
            read_board(session, event, limit=1)
        with django_assert_num_queries(8):
            differences.diff(session, event, limit=1)
