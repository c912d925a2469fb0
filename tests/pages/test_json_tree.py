"""JSON_VALUES values as trees."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.presentation import json_tree
from sessions_app.store.errors import NotFound
from tests.pages.html import Element, parse
from tests.pages.json_values import JSON_VALUES


def tree(value: Any, **options: Any) -> Element:
    return parse(json_tree.render(value, **options))


@given(JSON_VALUES)
def test_any_json_is_well_formed_html(value: Any):
    assert tree(value).one("div", css="json")
    assert tree(value, url="/piece/", depth=0).one("div", css="json")


def test_leaves_are_distinguished_by_type():
    html = tree({"s": "x", "n": 1.5, "t": True, "z": None, "e": [], "o": {}})
    leaves = {item.one("bdi", css="json-key").text: item.children[-1] for item in html.all("li")}
    assert {name: (leaf.text, leaf.classes) for name, leaf in leaves.items()} == {
        "s": ('"x"', {"json-string"}),
        "n": ("1.5", {"json-number"}),
        "t": ("true", {"json-word"}),
        "z": ("null", {"json-word"}),
        "e": ("[]", {"json-note"}),
        "o": ("{}", {"json-note"}),
    }


def test_markup_in_keys_and_values_stays_text():
    html = tree({"<b>k</b>": "<script>alert(1)</script>", "l": ["<img src=x>"] * 20})
    assert not [element for element in html if element.tag in {"b", "script", "img"}]
    assert "<script>alert(1)</script>" in html.text


def test_branches_are_open_down_to_requested_depth():
    value = {"a": {"b": {"c": 1}}}
    assert [("open" in branch.attrs) for branch in tree(value, depth=2).all("details")] == [True, True, False]
    assert "open" not in tree(value, depth=0).all("details")[0].attrs


def test_closed_branch_shows_size_and_beginning():
    closed = tree({"cities": ["Paris", {"x": 1}, [2], *range(30)]}).all("details")[1]
    assert closed.all("summary")[0].text == 'cities[33] "Paris", {…}, […], 0, 1, 2, 3, 4'


def test_with_an_address_closed_branches_and_long_texts_are_fetched():
    html = tree({"a/b~c": list(range(20)), "t": "x" * 5000}, url="/v/?at=1")
    fetched = [branch.attrs["hx-get"] for branch in html.all("details") if "hx-get" in branch.attrs]
    assert fetched == ["/v/?at=1&pointer=%2Fa~1b~0c&offset=0", "/v/?at=1&pointer=%2Ft&offset=0"]
    assert "x" * 500 not in html.text


@given(JSON_VALUES, st.text(min_size=1))
def test_pointer_resolves_to_its_value(value: Any, name: str):
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    assert json_tree.resolve_pointer({name: value}, pointer) == value


@pytest.mark.parametrize("pointer", ["/x", "/a/0/y", "/l/-", "/l/9", "/l/x"])
def test_a_pointer_to_nothing_is_refused(pointer: str):
    with pytest.raises(NotFound, match="nothing at"):
        json_tree.resolve_pointer({"a": 1, "l": [1]}, pointer)


def test_pieces_of_a_list_join_to_the_whole():
    value = list(range(230))
    pieces = [
        parse(json_tree.render_piece(value, "", offset=offset, url="/v/")).all("span", css="json-number")
        for offset in (0, 100, 200)
    ]
    assert [int(number.text) for piece in pieces for number in piece] == value


def test_a_piece_of_text_is_the_whole_text():
    piece = parse(json_tree.render_piece({"t": "y" * 5000}, "/t"))
    assert piece.one("li").text == '"' + "y" * 5000 + '"'


@pytest.mark.parametrize("url", ["", "/v/"])
def test_tree_is_bounded_for_any_value(url: str):
    value = {f"k{n}": {f"j{m}": list(range(200)) for m in range(12)} for n in range(200)}
    assert len(list(tree(value, url=url, depth=9))) < 20 * json_tree.BUDGET


def test_omitted_entries_are_counted():
    assert "130 more, left out" in tree(list(range(230))).text


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
