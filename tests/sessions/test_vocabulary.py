"""Names that the search box completes, on both databases."""

from __future__ import annotations

import pytest

from sessions_app.search import indexing, vocabulary
from sessions_app.sessions import labels
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store")


def test_every_name_is_listed_once_in_order(django_assert_num_queries):
    for number, app in enumerate(("weather", "writer", "weather")):
        story = Story(f"s{number}", {"own": 1, "app:shared": 2, "user:tier": "gold"}, app=app)
        story.calls("get_weather", "c1")
        story.says("Rain.", author="forecaster")
        story.add(delta={"city": "Paris", "k" * 2000: "too long to be typed"})
        labels.tag([story.pk], "bug")
    indexing.index_all()
    with django_assert_num_queries(9):
        words = vocabulary.read_vocabulary()
    assert (words.apps, words.users, words.tags) == (["weather", "writer"], ["ann"], ["bug"])
    assert words.tools == ["get_weather"]
    assert "forecaster" in words.authors
    assert sorted(words.keys) == ["app:shared", "city", "own", "user:tier"]


def test_empty_store_has_an_empty_vocabulary():
    words = vocabulary.read_vocabulary()
    assert not any([words.apps, words.users, words.tools, words.authors, words.tags, words.keys])


def test_names_beyond_the_limit_exist():
    for number, user in enumerate(("zoe", "ann")):
        story = Story(f"s{number}", {"a": 1, "user:z": 2}, user=user)
        story.calls("a_tool", "c1")
        story.calls("z_tool", "c2")
        labels.tag([story.pk], f"{user}'s")
    indexing.index_all()
    words = vocabulary.read_vocabulary(most=1, newest=1)
    there = {("user", "zoe"), ("tool", "z_tool"), ("tag", "zoe's"), ("key", "user:z"), ("app", "weather")}
    assert not any(name in words.of(kind) for kind, name in there - {("key", "user:z"), ("app", "weather")})
    absent = {(kind, f"{name}?") for kind, name in there} | {
        ("key", "z"),
        ("key", "temp:z"),
        ("author", "zoe"),
    }
    assert vocabulary.existing_names(there | absent) == there


def test_the_number_of_names_is_bounded():
    tools = [f"tool_{number:03}" for number in range(vocabulary.MAX_NAMES + 2)]
    story = Story("s1")
    for start in range(0, len(tools), 40):
        story.add(*({"functionCall": {"id": tool, "name": tool}} for tool in tools[start : start + 40]))
    indexing.index_all()
    assert vocabulary.read_vocabulary().tools == tools[: vocabulary.MAX_NAMES]
