"""Plans of searches: a search reads no more of an index than a term needs."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import Q

from devui.config import environment
from sessions_app.search import indexing
from sessions_app.search.execution.event_queries import EventQuery
from sessions_app.search.query.parsing import parse
from sessions_app.search.query.terms import StateTerm
from sessions_app.search.state_conditions import mark_condition
from sessions_app.store.database import tokens
from sessions_app.store.index import event_index
from sessions_app.store.models import AgentSession
from tests.search.conftest import Find
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def term(text: str) -> StateTerm:
    (parsed_term,) = parse(text).terms
    assert isinstance(parsed_term, StateTerm)
    return parsed_term


def bounds(condition: Q) -> list[str]:
    return sorted(name for name, _ in condition.children)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n > 5", ["mark__gt", "mark__lt"]),
        ("n >= 5", ["mark__gte", "mark__lt"]),
        ("n < 5", ["mark__gte", "mark__lt"]),
        ("n <= text", ["mark__gte", "mark__lte"]),
    ],
)
def test_ordered_values_are_one_index_range(text: str, expected: list[str]):
    assert bounds(mark_condition(term(text))) == expected


def test_existence_is_the_negation_of_missing(find: Find):
    Story("s1", {"k": 1, "user:tier": "gold"})
    Story("s2", {"k": None})
    Story("s3", user="ben")
    assert find("-k missing") == ["s1", "s2"]
    assert find("k missing") == ["s3"]
    assert find("k != 1") == ["s2"]
    assert find("-k != 1") == ["s1", "s3"]
    assert find("k != 2 never") == ["s3"]


@pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite's full-text index seeks a session's entries"
)
def test_common_word_in_a_session_is_searched_without_listing_all(
    monkeypatch: pytest.MonkeyPatch,
):
    story = Story("s1")
    story.says("sunny weather")
    indexing.index_all()
    phrases = [phrase for word in ("sunny", "weather") if (phrase := tokens.parse_phrase(word))]
    assert event_index.newest_seqs([story.pk], phrases, every=True) == {story.pk: story.session.last_seq}
    monkeypatch.setattr(event_index, "RARE", -1)
    assert event_index.newest_seqs([story.pk], phrases, every=True) == {story.pk: story.session.last_seq}
    holds = AgentSession.objects.filter(event_index.HoldsPhrase("pk", phrases[0]))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "event_words" not in holds.explain()
    assert list(holds) == [story.session]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL weighs both ways by its statistics")
@pytest.mark.parametrize("text", ["thunderstorm", "k = 3", "kind:agent thunderstorm"])
def test_indexed_terms_in_a_session_do_not_scan_its_events(text: str):
    story = Story("s1", {"k": 3})
    story.says("thunderstorm")
    indexing.index_all()
    plan = EventQuery(story.session, parse(text)).matching_events(1, 1_000_000).values_list("seq").explain()
    assert "seq=?" in plan
    assert "seq>?" not in plan


def test_postgresql_jit_is_off_unless_the_url_enables_it():
    url = "postgresql://ann@127.0.0.1/devui"
    assert environment.database_settings(url)["OPTIONS"] == {"options": "-c jit=off"}
    options = environment.database_settings(f"{url}?options=-c%20work_mem%3D64MB&sslmode=require")["OPTIONS"]
    assert options == {"options": "-c work_mem=64MB", "sslmode": "require"}
