"""Search for events within one session, and the hit that a session list shows."""

from __future__ import annotations

import json

import pytest
from pytest_django import DjangoAssertNumQueries

from sessions_app.search import indexing
from sessions_app.search.execution import event_queries, session_queries
from sessions_app.search.query.parsing import parse
from sessions_app.store.models import AgentSession
from tests.search.conftest import events
from tests.timeline.story import Story


@pytest.fixture(params=["not indexed yet", "partly indexed", "indexed"])
def story(request: pytest.FixtureRequest, db: None) -> Story:
    """A session of seven events beside another one, which must not be found."""
    story = Story("s1", {"retries": 0})
    story.asks("Weather in Paris?")
    story.calls("get_weather", "c1", city="Paris")
    if request.param == "partly indexed":
        indexing.index_all()
    story.answers("get_weather", "c1", response={"status": "error", "message": "no such city"})
    story.invocation = "i2"
    story.add(delta={"retries": 4, "user:city": "Rome"})
    story.says("It is sunny in 東京.", author="planner", branch="root.planner")
    story.says("", errorCode="QUOTA", errorMessage="no more")
    story.add({"functionCall": {"id": "c2", "name": "look", "args": {"name": "get_weather"}}})
    Story("s2").asks("Weather in Paris?")
    if request.param == "indexed":
        indexing.index_all()
    return story


FOUND = [
    ("paris", [1, 2]),
    ("weather paris", [1, 2]),
    ('"such city"', [3]),
    ("東京", [5]),
    ("-paris", [3, 4, 5, 6, 7]),
    ("kind:tool_call", [2, 7]),
    ("kind:tool_call paris", [2]),
    ("author:planner", [5]),
    ("agent:user", [1]),
    ("tool:get_weather", [2, 3]),
    ("error:quota", [6]),
    ("error:city", [3]),
    ("is:error", [3, 6]),
    ("kind:error", [3, 6]),
    ("kind:tool_result", [3]),
    ("invocation:i2", [4, 5, 6, 7]),
    ("event:e5", [5]),
    ("event:nowhere", []),
    ("branch:root.planner", [5]),
    ("key:retries", [4]),
    ("key:user:city", [4]),
    ("retries > 3", [4]),
    ("retries > 4 ever", []),
    ("user:city = Rome", [4]),
    ("after:2023-11-14T22:13:25", [5, 6, 7]),
    ("before:2023-11-14T22:13:22", [1]),
    ("", [1, 2, 3, 4, 5, 6, 7]),
    ("app:office is:pinned", [1, 2, 3, 4, 5, 6, 7]),
]
"""Queries, and the events of `story` that they ask for."""


def test_events_of_a_session_are_found(story: Story):
    for text, seqs in FOUND:
        assert events(story.session, text) == seqs, text


def test_terms_that_do_not_apply_to_events_are_reported():
    query = parse("app:office sunny is:pinned is:error kind:error x = 3 events>2")
    assert [str(term) for term in event_queries.session_terms(query)] == [
        "app:office",
        "is:pinned",
        "events>2",
    ]


def hit_of(story: Story, text: str) -> tuple[int, str] | None:
    hit = session_queries.Search(parse(text)).hits(list(AgentSession.objects.all())).get(story.pk)
    if hit is None:
        return None
    return hit.seq, "".join(f"[{piece}]" if matches else piece for piece, matches in hit.snippet)


def test_session_hit_is_newest_event_with_all_words_else_any(story: Story):
    assert hit_of(story, "weather paris") == (2, "get_[weather]\n[Paris]".replace("\n", " "))
    assert hit_of(story, "sunny paris") == (5, "It is [sunny] in 東京.")
    assert hit_of(story, "東京") == (5, "It is sunny in [東京].")
    assert hit_of(story, "nowhere") is None


def test_session_with_trait_shows_its_newest_event(story: Story):
    assert hit_of(story, "kind:tool_call") == (7, "look get_weather")
    assert hit_of(story, "error:quota") == (6, "[QUOTA] no more")
    hit = hit_of(story, "tool:get_weather")
    assert hit is not None
    assert hit[0] == 3
    assert hit_of(story, "app:weather") is None


def test_session_with_state_shows_the_event_that_wrote_it(story: Story):
    assert (hit_of(story, "retries > 3") or ())[0] == 4
    assert (hit_of(story, "retries > 3 ever") or ())[0] == 4
    assert hit_of(story, "retries = 0 ever") is None
    assert hit_of(story, "retries never") is None


def test_hit_deep_in_a_text_is_shown_with_context(db: None):
    story = Story()
    story.says("a " * 5_000 + "needle" + " b" * 5_000)
    hit = hit_of(story, "needle")
    assert hit is not None
    assert len(hit[1]) < 300
    assert hit[1].startswith("…a a")
    assert "a [needle] b" in hit[1]
    assert hit[1].endswith("…")


def test_a_hit_in_an_event_of_megabytes_is_shown_out_of_its_summary(db: None):
    story = Story()
    story.says("needle " + "x" * 1_000_000)
    hit = hit_of(story, "needle")
    assert hit is not None
    assert hit[1].startswith("[needle] xxx")


def test_the_hits_of_a_page_take_few_queries(db: None, django_assert_max_num_queries: DjangoAssertNumQueries):
    for number in range(50):
        Story(f"s{number}").says("It is sunny.")
    indexing.index_all()
    rows = list(AgentSession.objects.all())
    with django_assert_max_num_queries(6):
        assert len(session_queries.Search(parse("sunny it")).hits(rows)) == 50


def test_a_body_that_is_no_event_hides_itself_alone(db: None):
    story = Story()
    story.says("sunny")
    story.says("sunny")
    event = story.event(1)
    event.data, event.summary = "no JSON", json.dumps([1])
    event.save()
    assert events(story.session, "sunny") == [2]
    indexing.index_all()
    assert events(story.session, "sunny") == [2]
