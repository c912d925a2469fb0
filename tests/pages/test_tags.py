"""Template tags and filters."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.template import Context, Template

from sessions_app.presentation import text_diff
from sessions_app.store.events import EventKind
from sessions_app.store.models import Run
from sessions_app.templatetags import devui
from tests.pages.html import Element, parse


def render(source: str, **context: Any) -> Element:
    return parse(Template("{% load devui %}" + source).render(Context(context)))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0, "0 ms"),
        (0.0004, "0 ms"),
        (0.812, "812 ms"),
        (0.9996, "1.00 s"),
        (1.2351, "1.24 s"),
        (12.345, "12.3 s"),
        (59.96, "1 min"),
        (123, "2 min 3 s"),
        (120, "2 min"),
        (3599.7, "1 h"),
        (3720, "1 h 2 min"),
    ],
)
def test_durations_have_three_digits_or_two_units(seconds: float | None, text: str):
    assert devui.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, ""),
        (0, "0"),
        (999, "999"),
        (1000, "1.00k"),
        (12345, "12.3k"),
        (999_960, "1.00M"),
        (5e9, "5.00G"),
    ],
)
def test_compact_numbers_have_three_digits(number: float | None, text: str):
    assert devui.compact(number) == text


@pytest.mark.parametrize(
    ("size", "text"), [(None, ""), (0, "0 B"), (999, "999 B"), (2048, "2.05 kB"), (3e6, "3.00 MB")]
)
def test_sizes_are_in_powers_of_ten(size: int | None, text: str):
    assert devui.byte_size(size) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 events"), (1, "1 event"), (12345, "12,345 events")])
def test_words_agree_with_their_number(number: int, text: str):
    assert devui.plural(number, "event") == text


def test_irregular_plural_can_be_given():
    assert devui.plural(2, "entry,entries") == "2 entries"


def test_time_has_exact_value_and_reads_without_scripts():
    element = render("{{ t|moment }}", t=1763731000.123456).one("time")
    assert element.attrs == {
        "datetime": "2025-11-21T13:16:40.123+00:00",
        "data-epoch": "1763731000.123456",
        "data-style": "short",
    }
    assert element.text == "2025-11-21 13:16 UTC"
    assert render("{{ t|moment:'clock' }}", t=1763731000.1).one("time").text == "13:16:40 UTC"


@pytest.mark.parametrize(
    ("epoch", "expected"), [(1e300, "1e+300 s"), (-1e300, "-1e+300 s"), (1e15, "1e+15 s")]
)
def test_a_time_no_calendar_has_is_shown_as_it_is(epoch: float, expected: str):
    assert render("{{ t|moment }}", t=epoch).one("span").text == expected


@pytest.mark.parametrize("epoch", [float("inf"), float("nan")])
def test_non_numeric_time_is_shown_as_it_is(epoch: float):
    element = render("{{ t|moment }}", t=epoch).one("span")
    assert element.text == "no time"
    assert str(epoch) in element.attrs["title"]


def test_no_time_shows_nothing():
    assert render("{{ t|moment }}", t=None).text == ""
    assert render("{{ missing|moment }}").text == ""


@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_has_a_mark_that_is_named(kind: str):
    html = parse(devui.kind_mark(kind))
    assert html.one("svg").attrs["aria-label"] == EventKind(kind).label
    assert f"kind-{kind}" in html.one("span").classes


@pytest.mark.parametrize(("scope", "letter"), [("session", "S"), ("user", "U"), ("app", "A"), ("temp", "T")])
def test_every_scope_has_a_letter_beside_its_colour(scope: str, letter: str):
    mark = render("{% scope scope %}", scope=scope).one("abbr", css=f"scope-{scope}")
    assert (mark.text, mark.attrs["aria-label"]) == (letter, f"{scope} scope")


@pytest.mark.parametrize("status", Run.Status.values)
def test_every_status_of_a_run_has_an_icon_beside_its_colour(status: str):
    badge = render("{% status status %}", status=status).one("span", data_status=status)
    assert badge.one("svg")
    assert badge.text == status


def test_unknown_status_is_shown_escaped():
    assert render("{% status given %}", given="<odd>").one("span").text == "<odd>"


def test_a_query_is_encoded():
    assert devui.query("a&b=c/é", "app") == "app=a%26b%3Dc%2F%C3%A9"


def test_element_id_is_made_from_any_name():
    assert re.fullmatch(r"agent-[0-9a-f]+", devui.dom_id("a b/</", "agent"))
    assert devui.dom_id("a", "agent") != devui.dom_id("b", "agent")


def test_addresses_are_made_for_ids_with_any_characters():
    html = render("<a href=\"{% seg_url 'agent' app_name=app %}\">x</a>", app='a/b%c"?')
    assert html.one("a").attrs["href"] == "/agents/a%2Fb%25c%22%3F/"


def test_backticks_mark_code_and_text_stays_text():
    html = render("{{ hint|code_spans }}", hint="Run `<b>x</b>` & <i>wait</i>")
    assert [code.text for code in html.all("code")] == ["<b>x</b>"]
    assert html.text == "Run <b>x</b> & <i>wait</i>"


def test_word_diff_marks_differences_on_both_sides():
    left, right = text_diff.compare_texts("sunny <b>\u200b", "rainy <b>")
    assert devui.deletions(left).startswith('<del class="removed">sunny</del> &lt;b&gt;')
    assert devui.insertions(right) == '<ins class="added">rainy</ins> &lt;b&gt;'
    assert "\u200b" not in devui.deletions(left)
