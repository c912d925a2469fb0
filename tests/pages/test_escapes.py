"""Escapes of invisible characters."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.presentation import visible_text
from sessions_app.presentation.markdown_html import render_markdown
from tests.pages.html import parse

FAMILY = "👨‍👩‍👧 ❤️ 🏳️‍🌈 👍🏽 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f 1️⃣"
ENGLISH = "abc 123 — “é” ☂ 東京 café"
HEBREW = "שלום, עולם!"
PERSIAN = "می‌خواهم"
KANJI = "葛\U000e0100飾"
SINHALA = "ශ්‍රී"

UNSEEN = [
    *map(chr, [0, 7, 8, 0xB, 0xC, 0x1B, 0x7F, 0x85, 0xAD, 0x61C, 0x180E, 0x3164, 0xFEFF, 0xFFF9]),
    *map(chr, range(0x200B, 0x2010)),
    *map(chr, range(0x2028, 0x202F)),
    *map(chr, range(0x2060, 0x206A)),
    *map(chr, [0xD800, 0xDFFF, 0xFE00, 0xFE0F, 0xE0001, 0xE0041, 0xE007F, 0xE0100]),
]
ANYTHING = st.text(st.characters() | st.sampled_from([*UNSEEN, *"\n\t\r<&'\"#1❤👨ا葛"]))


def hidden(text: str) -> set[str]:
    """Return the characters of a text that have no shape of their own: the rule written down a second time."""
    return {sign for sign in text if sign in UNSEEN or unicodedata.category(sign) in {"Cc", "Cs", "Zl", "Zp"}}


@pytest.mark.parametrize("sign", UNSEEN, ids=lambda sign: f"U+{ord(sign):04X}")
def test_an_unseen_character_is_shown_in_names_text_and_json(sign: str):
    escape = f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"
    assert visible_text.escape_name(f"a{sign}b") == f"a{escape}b"
    assert visible_text.escape_text(f"a{sign}b") == f"a{escape}b"
    assert json.loads(visible_text.escape_json(f'"a{sign}b"')) == f"a{sign}b"
    mark = parse(visible_text.name_html(f"a{sign}b")).one("span", css="escape")
    assert mark.text == escape
    assert mark.attrs["title"].startswith(f"U+{ord(sign):04X} ")


def test_marker_names_its_character():
    page = parse(visible_text.name_html("\u202eevil\x07\ud800"))
    assert [mark.attrs["title"] for mark in page.all("span")] == [
        "U+202E RIGHT-TO-LEFT OVERRIDE",
        "U+0007 control character",
        "U+D800 lone surrogate",
    ]
    assert page.text == r"\u202eevil\u0007\ud800"


@pytest.mark.parametrize(
    "expected", [visible_text.name_html, visible_text.text_html, visible_text.escape_in_html]
)
def test_of_very_many_only_the_first_are_elements_and_all_are_shown(expected):
    page = parse(expected("\u200b" * 1_000))
    assert len(page.all("span")) == visible_text.MAX_MARKED
    assert page.text == r"\u200b" * 1_000


def test_two_names_that_differ_never_read_the_same():
    names = ["a b", "a\nb", "a\tb", "a\r\nb", "ab", "a\u200bb", "a\u200db", "a\ufe0fb", "❤", "❤️", PERSIAN]
    assert (
        len({visible_text.escape_name(name) for name in [*names, PERSIAN.replace("\u200c", "")]})
        == len(names) + 1
    )


@pytest.mark.parametrize("text", [FAMILY, ENGLISH, HEBREW, PERSIAN, KANJI, SINHALA, "one\n\ttwo"])
def test_text_keeps_line_breaks_and_joiners(text: str):
    assert visible_text.escape_text(text) == text
    assert parse(visible_text.text_html(text)).all("span") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u200db", r"a\u200db"),
        ("❤\u200d", r"❤\u200d"),
        ("❤\ufe0f\ufe0f", r"❤️" + r"\ufe0f"),
        (PERSIAN[:2] + "\u200c\u200c" + PERSIAN[3:], r"می\u200c\u200cخواهم"),
        ("\U0001f3f4\U000e0067", "\U0001f3f4" + r"\U000e0067"),
        ("שלום\u202e", r"שלום\u202e"),
        ("a\r\nb\rc", "a\nb\\rc"),
    ],
)
def test_outside_of_writing_the_same_characters_are_shown(text: str, expected: str):
    assert visible_text.escape_text(text) == expected


@given(ANYTHING)
def test_a_name_hides_nothing(text: str):
    assert not hidden(visible_text.escape_name(text))
    assert not hidden(parse(visible_text.name_html(text)).text.replace(" ", ""))


@given(ANYTHING)
def test_text_hides_nothing_outside_of_writing(text: str):
    assert hidden(visible_text.escape_text(text)) <= {
        "\n",
        "\t",
        "\u200c",
        "\u200d",
        "\ufe00",
        "\ufe0f",
        *map(chr, range(0xE0000, 0xE0200)),
    }
    assert visible_text.escape_text(visible_text.escape_text(text)) == visible_text.escape_text(text)


@given(ANYTHING)
def test_marked_text_copies_as_shown(text: str):
    for html, plain in (
        (visible_text.name_html, visible_text.escape_name),
        (visible_text.text_html, visible_text.escape_text),
    ):
        assert re.sub(r"\s+", " ", "".join(parse(html(text))._strings())) == re.sub(r"\s+", " ", plain(text))


@given(st.recursive(st.none() | ANYTHING, lambda inner: st.lists(inner) | st.dictionaries(ANYTHING, inner)))
def test_json_stays_the_same_json(value):
    text = json.dumps(value, ensure_ascii=False, indent=2)
    assert json.loads(visible_text.escape_json(text)) == value


@given(ANYTHING)
def test_markdown_marks_invisible_characters_everywhere(text: str):
    quiet = text.replace("\n", " ").replace("]", "").replace("`", "")
    html = render_markdown(
        f'{text}\n\n`{quiet}` [{quiet}](https://e.example/{quiet} "{quiet}")\n\n    {quiet}\n'
    )
    assert not hidden(html) - {
        "\n",
        "\t",
        "\u200c",
        "\u200d",
        "\ufe00",
        "\ufe0f",
        *map(chr, range(0xE0000, 0xE0200)),
    }


def test_an_author_cannot_write_a_mark():
    assert not parse(render_markdown('<span class="escape" title="x">y</span>')).all("span")
