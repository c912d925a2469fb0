"""Markdown from agents."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.utils.html import escape
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.presentation import markdown_html
from sessions_app.presentation.markdown_html import render_markdown, render_within_limits
from sessions_app.presentation.message_html import render_message
from tests.pages.html import parse


def test_markdown_becomes_html():
    page = parse(
        render_markdown("# Title\n\n- one\n- **two**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`code` ~~gone~~")
    )
    assert page.one("h1").text == "Title"
    assert [item.text for item in page.all("li")] == ["one", "two"]
    assert [cell.text for cell in page.all("td")] == ["1", "2"]
    assert (page.one("code").text, page.one("s").text) == ("code", "gone")


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
    page = parse(render_markdown(hostile))
    assert {element.tag for element in page} <= {"p", "a", "code", "pre", "br"}
    for link in page.all("a"):
        assert link.attrs["href"].startswith("https://e.example")
        assert set(link.attrs) <= {"href", "title", "rel"}


@pytest.mark.parametrize(
    "text",
    [
        r"C:\dir\*.txt and D:\_a_\!b",
        r"\(a^2\) and \[x_1\]",
        r"\\server\share",
        r"1\. not a list",
        "https://x.example/a*b*c and http://x.example/_y_?*",
        "see (https://x.example/a_b_c), or 'https://x.example/*.txt'.",
    ],
)
def test_no_character_of_a_text_is_lost(text: str):
    page = parse(render_markdown(text))
    assert page.text == text
    assert {element.tag for element in page} == {"p"}


@pytest.mark.parametrize(
    ("text", "rendered_text"),
    [
        ("[1]: https://x.example/a 'Tea'", "[1]: https://x.example/a “Tea”"),
        (
            "Sources:\n\n[1]: https://x.example/a\n[2]: b.html",
            "Sources: [1]: https://x.example/a [2]: b.html",
        ),
        ("> [1]: https://x.example/a", "[1]: https://x.example/a"),
        ("[tea][1]\n\n[1]: https://x.example/a", "tea"),
        ("[1]\n\n[1]: https://x.example/a\n[1]: https://x.example/b", "1 [1]: https://x.example/b"),
    ],
)
def test_definition_that_no_link_uses_is_shown(text: str, rendered_text: str):
    assert parse(render_markdown(text)).text == rendered_text


def test_cells_beyond_the_columns_of_a_table_stay():
    page = parse(render_markdown("| a | b |\n|---|---|\n| 1 | `x | y` |\n| 1 | 2 | 3 | 4 |\n| 1 |"))
    assert [cell.text for cell in page.all("td")] == ["1", "x | y", "1", "2 | 3 | 4", "1", ""]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1. a\n2. b\n3. c", [None, None, None]),
        ("1. a\n1. b\n1. c", [None, None, None]),
        ("1) a\n3) b\n4) c", [None, "3", None]),
        ("3. a\n2. b\n1. c", [None, "2", "1"]),
        ("1. a\n2. b\n   1. c\n   9. d\n5. e", [None, None, None, "9", "5"]),
        ("- a\n- b", [None, None]),
    ],
)
def test_items_of_a_list_keep_their_numbers(text: str, values: list[str | None]):
    assert [item.attrs.get("value") for item in parse(render_markdown(text)).all("li")] == values


@pytest.mark.parametrize(
    ("text", "rendered_text"),
    [
        ("[the file](sandbox:/mnt/data/a%20b.csv)", "the file (sandbox:/mnt/data/a b.csv)"),
        ("![plot](artifact:plot.png)", "plot (artifact:plot.png)"),
        ("![](artifact:plot.png)", " (artifact:plot.png)"),
        ("[guide](docs/guide.md)", "guide (docs/guide.md)"),
        ("[home](/sessions/)", "home (/sessions/)"),
        ("[x](//evil.example/y)", "x (//evil.example/y)"),
        ("[up](#top)", "up (#top)"),
        ("![a](http://[x)", "a (http://[x)"),
        ("[**bold** name](gs://bucket/x)", "bold name (gs://bucket/x)"),
    ],
)
def test_target_that_cannot_be_opened_is_named(text: str, rendered_text: str):
    page = parse(render_markdown(text))
    assert page.text.strip() == rendered_text.strip()
    assert not page.all("a")


@pytest.mark.parametrize(
    ("text", "bold"),
    [
        ("**「重要」**の話", ["「重要」"]),
        ("これは**「重要」**です。", ["「重要」"]),
        ("请看**“说明”**。然后**（注意）**再试", ["“说明”", "（注意）"]),
        ("한국어**(중요)**입니다", ["(중요)"]),
        ("値は**10%**です", ["10%"]),
        ("**a** b **c**", ["a", "c"]),
        ("2 ** 3 ** 4", []),
        ("中 ** 文 ** 字", []),
        ("a**(b)**c", []),
    ],
)
def test_emphasis_needs_no_spaces_beside_wide_characters(text: str, bold: list[str]):
    assert [element.text for element in parse(render_markdown(text)).all("strong")] == bold


def test_address_ends_where_markup_does():
    page = parse(
        render_markdown(
            "**https://x.example/a** *see http://x.example/b_c* [https://x.example](https://y.example)"
        )
    )
    assert (page.one("strong").text, page.one("em").text) == (
        "https://x.example/a",
        "see http://x.example/b_c",
    )
    assert page.one("a").attrs["href"] == "https://y.example"


def test_an_image_is_a_link_and_loads_nothing():
    page = parse(render_markdown("![a *plan*](https://e.example/p.png)"))
    assert not page.all("img")
    assert (page.one("a").text, page.one("a").attrs["href"]) == ("a plan", "https://e.example/p.png")


def test_links_send_no_referrer():
    assert "noreferrer" in parse(render_markdown("[x](https://e.example)")).one("a").attrs["rel"]


def test_line_breaks_stay():
    assert len(parse(render_markdown("one\ntwo")).all("br")) == 1


BOMBS = {
    "openings": "[" * 50_000,
    "images": "![" * 10_000,
    "nested links": "[a](" * 5_000,
    "closed brackets": "[" * 5_000 + "]" * 5_000,
    "emphasis": "*a " * 7_000,
    "mixed emphasis": "**a *b " * 3_000,
    "underlines": "_a__" * 5_000,
    "struck": "~~a~" * 5_000,
    "entities": "&#1" * 6_000,
    "angles": "<a:" * 6_000,
    "headings": "# a\n" * 5_000,
    "an open title": "[a]: b '" + "x\n" * 10_000,
    "a wide table": "|a" * 500 + "|\n" + "|-" * 500 + "|\n" + "|\n" * 2_000,
    "very long": "a" * 1_000_000,
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_text_that_takes_more_work_than_prose_is_shown_as_it_is(bomb: str):
    assert render_within_limits(bomb) is None
    assert parse(render_markdown(bomb)).one("pre").text == parse(f"<pre>{escape(bomb)}</pre>").one("pre").text


def test_an_address_that_many_references_repeat_does_not_multiply():
    bomb = f"[a]: /{'x' * 10_000}\n\n" + "[a] " * 1_000
    assert len(render_markdown(bomb)) < 2 * len(bomb)
    assert len(parse(render_markdown("[a]: https://e.example/x\n\n" + "[a] " * 50)).all("a")) == 50


PIECES = [
    "[",
    "]",
    "(",
    ")",
    "!",
    "*",
    "_",
    "`",
    "~~",
    "<",
    ">",
    "&",
    "|",
    "-",
    "\n",
    "\n\n",
    "> ",
    "- ",
    "1. ",
    "#",
    "a",
    " ",
    "\\",
]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8), st.integers(1, 4_000))
def test_no_text_takes_more_steps_than_it_may(pieces: list[str], times: int):
    text = "".join(pieces) * times
    step_count = 0

    def counted(state: object, *_: object) -> bool:
        nonlocal step_count
        step_count += 1
        return False

    with pytest.MonkeyPatch.context() as patch:
        parser = markdown_html._make_parser.__wrapped__()
        parser.inline.ruler.before("text", "seen", counted)
        patch.setattr(markdown_html, "_make_parser", lambda: parser)
        html = render_markdown(text)
    assert step_count <= markdown_html.MAX_STEPS + 1
    assert len(html) <= 40 * len(text) + 1_000


def test_ordinary_documents_are_read_as_markdown():
    for page in (Path(__file__).parents[2] / "docs").glob("*.md"):
        assert render_within_limits(page.read_text(encoding="utf-8")) is not None, page.name


def test_rich_content_is_plain_in_rows():
    assert parse(render_message("[" * 4_000)).one("p", css="message-text").text == "[" * 4_000


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a": 1.50}', '[1e400, "x"]', "[0.1000000000000000000001]"]
)
def test_json_that_would_lose_something_stays_as_it_is(text: str):
    assert parse(render_message(text)).one("pre").text == text


def test_text_that_only_begins_like_json_is_markdown():
    assert parse(render_message("[1.50] and **[2]**")).one("strong").text == "[2]"


def test_json_is_indented():
    html = str(render_message('{"a": [1.5, 2]}'))
    assert html.count("\n") == 5


def test_code_blocks_are_reached_by_the_keyboard():
    assert parse(render_markdown("```sh\nls\n```")).one("pre").attrs == {"tabindex": "0"}
