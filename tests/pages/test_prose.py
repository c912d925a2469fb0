"""Markdown that agents wrote."""

from __future__ import annotations

import pytest

from sessions_app.presentation.prose import markdown
from tests.pages.page import parse


def test_markdown_becomes_html():
    shown = parse(
        markdown("# Title\n\n- one\n- **two**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`code` ~~gone~~")
    )
    assert shown.one("h1").text == "Title"
    assert [item.text for item in shown.all("li")] == ["one", "two"]
    assert [cell.text for cell in shown.all("td")] == ["1", "2"]
    assert (shown.one("code").text, shown.one("s").text) == ("code", "gone")


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "[x](vbscript:x)",
        "<a href='javascript:alert(1)'>x</a>",
        "![x](javascript:alert(1))",
        '![x](https://e.example/" onerror="alert(1))',
        '[x](https://e.example "onmouseover=alert(1)")',
        "<style>*{display:none}</style>",
        "<iframe src=https://e.example></iframe>",
        "```<script>\nalert(1)\n```",
        "[x]: javascript:alert(1)\n\n[x]",
        "<https://e.example/?<script>>",
        "<svg onload=alert(1)>",
    ],
)
def test_hostile_markdown_is_inert(hostile: str):
    shown = parse(markdown(hostile))
    assert {element.tag for element in shown} <= {"p", "a", "code", "pre", "br"}
    for link in shown.all("a"):
        assert link.attrs["href"].startswith("https://e.example")
        assert set(link.attrs) <= {"href", "title", "rel"}


def test_an_image_is_a_link_and_loads_nothing():
    shown = parse(markdown("![a *plan*](https://e.example/p.png)"))
    assert not shown.all("img")
    assert (shown.one("a").text, shown.one("a").attrs["href"]) == ("a plan", "https://e.example/p.png")


def test_links_tell_the_other_side_nothing():
    assert "noreferrer" in parse(markdown("[x](https://e.example)")).one("a").attrs["rel"]


def test_line_breaks_stay():
    assert len(parse(markdown("one\ntwo")).all("br")) == 1
