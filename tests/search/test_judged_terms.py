"""Sessions and events found by the judgements of people."""

from __future__ import annotations

import pytest

from sessions_app.search.execution import session_queries
from sessions_app.search.query.parsing import parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.sessions import judgements
from sessions_app.store.models import AgentSession
from tests.search.conftest import Find, events
from tests.timeline.story import Story


def tell_sessions() -> dict[str, Story]:
    """Tell four sessions of two answers each; the first of `good`, `bad` and `withdrawn` is judged."""
    stories = {name: Story(name) for name in ("good", "bad", "withdrawn", "new")}
    for story in stories.values():
        story.says("It is sunny.")
        story.says("It rains.")
    judgements.judge(stories["good"].pk, 1, "good")
    judgements.judge(stories["bad"].pk, 1, "bad", "It rains.")
    judgements.judge(stories["withdrawn"].pk, 1, "bad")
    judgements.withdraw(stories["withdrawn"].pk, 1)
    return stories


def test_sessions_are_found_by_their_judgements(find: Find):
    tell_sessions()
    assert find("judged:good") == ["good"]
    assert find("judged:bad") == ["bad"]
    assert find("judged:none") == ["new", "withdrawn"]
    assert find("-judged:none") == ["bad", "good"]
    assert find("-judged:bad sunny") == ["good", "new", "withdrawn"]
    assert find("judged:bad judged:good") == []


@pytest.mark.django_db
def test_events_are_found_by_their_judgements():
    session = tell_sessions()["bad"].session
    assert events(session, "judged:bad") == [1]
    assert events(session, "judged:none") == [2]
    assert events(session, "-judged:bad kind:agent") == [2]
    assert events(session, "judged:good") == []


@pytest.mark.django_db
def test_hit_is_the_last_event_that_is_judged_so():
    story = tell_sessions()["bad"]
    search = session_queries.Search(parse("judged:bad"))
    assert search.hits([story.session])[story.pk].seq == 1
    judgements.judge(story.pk, 2, "bad")
    assert session_queries.Search(parse("judged:bad")).hits([story.session])[story.pk].seq == 2
    assert session_queries.Search(parse("judged:none")).hits(list(AgentSession.objects.all())) == {}


def test_unknown_judgement_is_refused_with_those_that_exist():
    with pytest.raises(QueryError, match="'odd' is not a value of judged") as error:
        parse("judged:odd")
    assert error.value.hint == "Values of judged: good, bad, none."
