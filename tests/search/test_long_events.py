"""Text far into a long event is found, in every script, as in a short one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from django.db import connection

from sessions_app.search import indexing
from sessions_app.store.database import tokens
from sessions_app.store.models import Event
from tests.search.conftest import Find, events, finder
from tests.timeline.nested_story import add, nest, text
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db

WORDS = 60_000


def distinct_words(prefix: str) -> Iterable[str]:
    return (f"{prefix}{number}" for number in range(WORDS))


@pytest.mark.parametrize(
    ("filling", "needle"),
    [
        ("word " * WORDS, "needle"),
        (" ".join(distinct_words("w")), "needle"),
        (" ".join(distinct_words("w")), '"a needle in"'),
        ("in a word " * WORDS, '"a needle in"'),
        ("これは長い文章です。" * 6_000, "東京都庁"),
        ("นี่คือข้อความยาว" * 4_000, "กรุงเทพ"),
        ("긴 글입니다 " * 9_000, "서울특별시"),
        ("0,0,0,0,1\n" * 12_000, "-needle"),
    ],
)
def test_text_at_the_end_of_a_long_event_is_found(find: Find, filling: str, needle: str):
    story = Story("long")
    story.says(f"{filling} a needle in 東京都庁 กรุงเทพ 서울특별시")
    story.says("short")
    Story("other").says("short")
    is_negated = needle.startswith("-")
    assert find(needle) == (["other"] if is_negated else ["long"])
    assert events(story.session, needle) == ([2] if is_negated else [1])


def test_phrase_that_a_word_of_a_short_event_interrupts_is_not_found(find: Find):
    Story("s1").says("a fine needle in " + "other " * 200)
    assert find('"a needle"') == []


def test_frequent_words_do_not_hide_a_phrase(find: Find):
    Story("s1").says("the " * 400 + "the needle")
    assert find('"the needle"') == ["s1"]


def test_end_of_a_long_tool_result_is_found(find: Find):
    story = Story("s1")
    story.calls("fetch", "c1")
    story.answers("fetch", "c1", response={"page": "頁" * 20_000 + "最後"})
    assert find("最後") == ["s1"]


def test_last_of_many_calls_and_results_is_found(find: Find):
    story = Story("s1")
    names = [f"tool_{number}" for number in range(60)]
    story.add(*({"functionCall": {"id": name, "name": name, "args": {}}} for name in names))
    results: list[dict[str, Any]] = [{"functionResponse": {"id": name, "name": name}} for name in names]
    results[-1]["functionResponse"]["response"] = {"error": "no such city"}
    story.add(*results)
    assert find("tool:tool_59") == find('error:"such city"') == find("kind:error") == ["s1"]
    assert (events(story.session, "tool:tool_59"), events(story.session, "error:city")) == ([1, 2], [2])


@pytest.mark.parametrize("needle", ["needle", '"the needle"'])
def test_end_of_a_long_nested_run_is_found(needle: str):
    story = Story("s1")
    story.calls("helper", "c1")
    add(nest(story, "r1"), text("word " * WORDS + "the needle"))
    assert finder(is_indexed=True)(needle) == ["s1"]


def test_tsvector_of_any_text_is_accepted():
    """PostgreSQL limits positions, their number for a word, and the bytes of all words."""
    texts = ["a " * 100_000, " ".join(distinct_words("a-long-word-of-many-letters-")), "x" * 300_000]
    if connection.vendor != "postgresql":
        pytest.skip("vectors are PostgreSQL's")
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute("SELECT %s::tsvector", [tokens.tsvector(tokens.tokenize(text))])


def test_batch_of_long_events_is_indexed_in_parts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(indexing, "BATCH_CHARACTERS", 1_000)
    story = Story("s1")
    for number in range(5):
        story.says(f"needle{number} " + "word " * 150)
    batches = indexing.read_batches()
    assert [(batch.start, batch.end) for batch in batches] == [(-1, 1)]
    assert indexing.index_all() == Event.objects.filter(session=story.pk).count()
