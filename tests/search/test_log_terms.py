"""Search for log records: sessions that have one, and the events after which it came."""

from __future__ import annotations

import re

import pytest

from sessions_app.search.execution import event_queries, session_queries
from sessions_app.search.execution.session_queries import Hit
from sessions_app.search.query.completion import Vocabulary, complete
from sessions_app.search.query.parsing import parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.store.models import AgentSession
from tests.search.conftest import events, finder
from tests.timeline.logs import log
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def text_of(hit: Hit) -> str:
    return "".join(text for text, _ in hit.snippet)


@pytest.fixture
def story() -> Story:
    """A session with two invocations and their logs, beside one that logs INFO and one without a log."""
    story = Story("s1")
    story.asks("Weather in Paris?")
    story.calls("get_weather", "c1", city="Paris")
    story.says("I do not know.")
    story.invocation = "i2"
    story.asks("And in Rome?")
    story.says("Sunny.")
    log(story, 2, "Read TIMED OUT after 5 s", level=30)
    log(story, 3, "100% lost", level=40)
    log(story, 5, "loading", after_event_id="")
    other = Story("s2")
    other.says("fine")
    log(other, 1, "all is fine")
    Story("s3").says("timed out")
    return story


@pytest.mark.parametrize(
    ("text", "sessions", "seqs"),
    [
        ("log:timed", ["s1"], [2]),
        ('log:"timed out"', ["s1"], [2]),
        ('log:"out timed"', [], []),
        ("log:%", ["s1"], [3]),
        ("log:fine", ["s2"], []),
        ("log:loading", ["s1"], [4]),
        ("log:paris", [], []),
        ("level:debug", ["s1", "s2"], [2, 3, 4]),
        ("level:Warning", ["s1"], [2, 3]),
        ("level:error", ["s1"], [3]),
        ("level:critical", [], []),
        ("-level:warning", ["s2", "s3"], [1, 4, 5]),
        ("-log:timed kind:tool_call", [], []),
        ("log:timed kind:tool_call", ["s1"], [2]),
        ("log:timed level:error", ["s1"], []),
    ],
)
def test_log_term_finds_sessions_and_events(story, text, sessions, seqs):
    assert finder(is_indexed=True)(text) == sessions
    assert events(story.session, text) == seqs


def test_record_belongs_to_the_event_of_its_own_session(story):
    other = AgentSession.objects.get(session_id="s2")
    assert story.event(1).event_id == other.events.get().event_id
    assert events(other, "log:fine") == [1]
    assert events(other, "log:timed") == []


def test_log_terms_apply_to_events():
    assert event_queries.session_terms(parse("log:timeout level:error")) == []


def test_sessions_are_tested_for_log_terms_in_windows():
    plan = session_queries.Search(parse("log:timeout level:error")).plan
    assert (len(plan.indexed), len(plan.tests)) == (0, 2)


def test_session_with_log_record_shows_the_event_before_the_newest(story):
    hits = session_queries.Search(parse("level:debug")).hits(
        list(AgentSession.objects.order_by("session_id"))
    )
    assert [(hit.seq, text_of(hit)) for hit in hits.values()] == [(4, "loading"), (1, "all is fine")]


def test_hit_of_a_log_term_shows_the_record(story):
    [hit] = session_queries.Search(parse("log:timed")).hits([story.session]).values()
    assert (hit.seq, hit.kind, text_of(hit)) == (2, "tool_call", "Read TIMED OUT after 5 s")
    assert [text for text, matches in hit.snippet if matches] == ["TIMED"]
    [hit] = session_queries.Search(parse("log:timed kind:tool_call")).hits([story.session]).values()
    assert "get_weather" in text_of(hit)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("level:warn", "did you mean 'warning'?", "debug, info, warning, error, critical"),
        ("level:30", "'30' is not a value of level", "debug, info, warning, error, critical"),
        ("level:", "level: needs a value", "Write level:error without a space after the colon."),
        ("log:", "log: needs a value", "Write log:value without a space after the colon."),
        ("level:>error", "level: takes no comparison", "Write level:value."),
    ],
)
def test_invalid_log_term_is_refused(text, message, hint):
    with pytest.raises(QueryError, match=re.escape(message)) as refusal:
        parse(text)
    assert hint in refusal.value.hint


def test_levels_are_completed():
    assert [offer.text for offer in complete("level:w", 7, Vocabulary())] == ["level:warning"]
