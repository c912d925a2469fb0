"""Search in a JSON_VALUES value, with the tree expanded at a match."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.presentation import highlighting, json_search, json_tree
from sessions_app.presentation.json_search import JsonHit, search_json
from tests.pages.html import Element, parse
from tests.pages.json_values import JSON_VALUES


def pointers(value: Any, text: str) -> list[str]:
    pattern = highlighting.compile_pattern(text)
    found = search_json(value, pattern)
    hits = [search_json(value, pattern, number).hit for number in range(1, found.count + 1)]
    assert [hit.number for hit in hits] == list(range(1, found.count + 1))
    return [hit.pointer for hit in hits]


def at(value: Any, pointer: str, text: str) -> Element:
    return parse(
        json_tree.render_at(value, JsonHit(1, pointer), url="/e/", pattern=highlighting.compile_pattern(text))
    )


def test_keys_and_values_are_matched_in_document_order():
    value = {"city": "Paris", "plan": [{"City": 1}, "the CITY", {"x": "y"}], "n": 42, "t": True, "z": None}
    assert pointers(value, "city") == ["/city", "/plan/0/City", "/plan/1"]
    assert pointers(value, "42") == ["/n"]
    assert pointers(value, "true") == ["/t"]
    assert pointers(value, "null") == ["/z"]


def test_an_entry_counts_once_and_an_index_is_no_key():
    assert pointers({"aa": "aa aa"}, "a") == ["/aa"]
    assert pointers([["x"]], "0") == []


def test_odd_keys_have_pointers_and_odd_texts_are_no_patterns():
    assert pointers({"a/b~c": {"": ".*"}}, ".*") == ["/a~1b~0c/"]
    assert pointers({"x": "abc"}, ".") == []


def test_scalar_value_is_searched_too():
    assert pointers("needle", "need") == [""]
    assert pointers({}, "x") == []


def test_a_number_beyond_the_last_hit_gives_the_last():
    hits = search_json({"a": "x", "b": "x"}, highlighting.compile_pattern("x"), 9)
    assert hits.hit == JsonHit(2, "/b")


def test_hit_count_is_bounded_and_says_so():
    limit = json_search.MAX_HITS
    hits = search_json(["x"] * (limit + 1), highlighting.compile_pattern("x"), limit)
    assert (hits.count, hits.capped, hits.hit) == (limit, True, JsonHit(limit, f"/{limit - 1}"))
    assert not search_json(["x"] * limit, highlighting.compile_pattern("x")).capped


@settings(deadline=None)
@given(JSON_VALUES, st.text(min_size=1, max_size=3))
def test_every_hit_of_any_value_can_be_opened(value: Any, text: str):
    for pointer in pointers(value, text)[:5]:
        json_tree.resolve_pointer(value, pointer)
        assert at(value, pointer, text).one("div", css="json")


def test_depth_is_no_obstacle():
    value: Any = "needle"
    for _ in range(400):
        value = {"d": [value]}
    [pointer] = pointers(value, "needle")
    shown = at(value, pointer, "needle")
    assert shown.one("li", id="json-hit").attrs["data-pointer"] == pointer
    assert "inside /d/0/d" in shown.text


def test_path_to_a_hit_is_open_with_its_neighbours_near():
    value = {"rows": [{"id": n, "tags": ["a", "needle"]} for n in range(5000)]}
    shown = at(value, "/rows/2500/tags/1", "needle")
    assert shown.one("li", id="json-hit").text == '1"needle"'
    assert len(list(shown)) < 300
    buttons = {button.text: button.attrs["hx-get"] for button in shown.all("button")}
    assert set(buttons) == {"2,494 earlier", "2,493 more"}
    assert buttons["2,494 earlier"] == "/e/?pointer=%2Frows&offset=2394&until=2494"


def test_earlier_entries_load_in_pages_up_to_shown_ones():
    piece = parse(json_tree.render_piece(list(range(500)), "", offset=200, until=260, url="/e/"))
    numbers = [int(number.text) for number in piece.all("span", css="json-number")]
    assert numbers == list(range(200, 260))
    assert [button.text for button in piece.all("button")] == ["200 earlier"]


def test_matches_are_marked_without_other_changes():
    value = {"<b>key</b>": "<i>Key</i> and\u202e KEY", "n": 1}
    shown = at(value, "/<b>key<~1b>", "key")
    assert [mark.text for mark in shown.all("mark")] == ["key", "Key", "KEY"]
    assert not shown.all("b")
    assert not shown.all("i")
    assert "\\u202e" in shown.text


def test_a_long_text_shows_the_stretch_that_matches():
    shown = at({"t": "x" * 3000 + " needle " + "y" * 3000}, "/t", "needle")
    summary = shown.one("li", id="json-hit").one("summary").text
    assert "…xxxx" in summary
    assert "needle" in summary
    assert "6,008 characters" in summary


def test_everything_opens_at_once_as_far_as_the_bounds_go():
    value = {"a": {"b": {"c": [{"d": list(range(30))}]}}}
    assert all(
        "open" in branch.attrs for branch in parse(json_tree.render_all(value, url="/e/")).all("details")
    )
    long = parse(json_tree.render_all({"rows": [{"n": n} for n in range(5000)]}, url="/e/"))
    assert len(long.all("span", css="json-number")) == json_tree.PAGE
    assert [button.text for button in long.all("button")] == ["4,900 more"]
    wide = {f"k{n}": {f"j{m}": [m] * 90 for m in range(90)} for n in range(90)}
    opened = parse(json_tree.render_all(wide, url="/e/"))
    assert any("hx-get" in branch.attrs for branch in opened.all("details"))
    assert len(list(opened)) < 6 * json_tree.ALL_BUDGET


def test_a_long_string_comes_in_stretches_that_join_to_the_whole():
    text = "".join(chr(97 + n % 26) for n in range(50_000))
    pieces = [
        json_tree.render_piece({"t": text}, "/t", offset=offset, url="/e/") for offset in (0, 20_000, 40_000)
    ]
    joined = "".join(parse(piece).one("bdi", css="json-string").text for piece in pieces)
    assert joined == f'"{text}"'
    assert [len(parse(piece).all("button")) for piece in pieces] == [1, 1, 0]
    assert re.search(r"pointer=%2Ft&amp;offset=20000", pieces[0])


@pytest.mark.parametrize("url", ["", "/e/"])
def test_entries_have_pointers_only_if_pieces_can_be_requested(url: str):
    entries = parse(json_tree.render({"a/b": [1]}, url=url, depth=3)).all("li")
    assert [entry.attrs.get("data-pointer") for entry in entries] == (
        ["/a~1b", "/a~1b/0"] if url else [None, None]
    )
