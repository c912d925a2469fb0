"""Terms about kind, author, tool and error, which also look inside nested runs."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.search import indexing
from sessions_app.search.execution.event_queries import EventQuery
from sessions_app.search.execution.session_queries import Search
from sessions_app.search.query.parsing import parse
from sessions_app.store.models import AgentSession
from tests.timeline.nested_story import add, nest, nested_call
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db

FAILED_LOOK = {"functionResponse": {"id": "d1", "name": "look", "response": {"error": "The lamp is out."}}}


@pytest.fixture
def nested() -> Story:
    """A session whose second event calls an agent, which calls a tool that fails."""
    story = Story("s1")
    story.asks("Where?")
    story.calls("helper", "c1")
    run = nest(story, "r1")
    add(run, nested_call("look", "d1"))
    add(run, FAILED_LOOK)
    return story


def sessions(text: str) -> list[str]:
    rows = Search(parse(text)).filter_rows(AgentSession.objects.filter(realm=""))
    return sorted(rows.values_list("session_id", flat=True))


def events(story: Story, text: str) -> list[int]:
    rows = EventQuery(story.session, parse(text)).matching_events(1, 1_000)
    return list(rows.values_list("seq", flat=True))


TERMS = ["tool:look", "kind:tool_result", "author:helper", 'error:"lamp is out"', "kind:error"]


@pytest.mark.parametrize("text", TERMS)
@pytest.mark.parametrize("reindexed", [False, True])
def test_session_is_found_by_what_is_inside_a_nested_run(nested: Story, text: str, reindexed: bool):
    indexing.index_all()
    if reindexed:
        indexing.reset()
        indexing.index_all()
    Story("other").asks("Where?")
    assert sessions(text) == ["s1"]


@pytest.mark.parametrize("text", TERMS)
def test_event_with_the_call_is_found_by_what_is_inside(nested: Story, text: str):
    assert events(nested, text) == [2]
    assert 2 not in events(nested, f"-{text}")


def test_nested_run_that_ends_after_its_call_was_indexed_is_found():
    story = Story("s1")
    story.calls("helper", "c1")
    indexing.index_all()
    add(nest(story, "r1"), nested_call("look", "d1"))
    assert sessions("tool:look") == []
    indexing.index_all()
    assert sessions("tool:look") == ["s1"]


def test_term_that_no_nested_event_meets_finds_nothing(nested: Story):
    indexing.index_all()
    assert sessions("tool:listen") == []
    assert events(nested, "tool:listen") == []
    assert events(nested, "-tool:listen") == [1, 2]


def test_hit_of_a_session_is_the_event_with_the_call(nested: Story):
    nested.asks("And then?")
    indexing.index_all()
    search = Search(parse("tool:look"))
    assert [hit.seq for hit in search.hits([nested.session]).values()] == [2]


def test_session_without_nested_runs_is_searched_as_before():
    story = Story("s1")
    story.calls("look", "c1")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert events(story, "tool:look") == [1]
    assert "nestedrun" not in queries[-1]["sql"]
