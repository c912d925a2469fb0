"""Logged and printed text in the colors that a terminal would show."""

from __future__ import annotations

import pytest

from sessions_app.presentation.terminal_colors import MAX_COLORED, terminal_html

ESC = "\x1b"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain <b>", "plain &lt;b&gt;"),
        (f"{ESC}[31mred{ESC}[0m, plain", '<span class="ansi-red">red</span>, plain'),
        (
            f"{ESC}[1;92mbold <b>{ESC}[22m green",
            '<span class="ansi-bold ansi-green">bold &lt;b&gt;</span><span class="ansi-green"> green</span>',
        ),
        (f"{ESC}[90mgray{ESC}[m", '<span class="ansi-black">gray</span>'),
        (f"{ESC}[38;5;200mof 256{ESC}[0m", "of 256"),
        (f"{ESC}[1;38;5;31mbold{ESC}[0m", '<span class="ansi-bold">bold</span>'),
        (f"{ESC}[{'1' * 5_000}mlong", "long"),
        (f"{ESC}[2Jcleared {ESC}]0;title\x07here", "cleared here"),
    ],
)
def test_colors_are_classes_and_other_codes_are_left_out(text: str, html: str):
    assert terminal_html(text) == html


def test_unfinished_code_is_shown_as_an_escape():
    assert "\x1b" not in terminal_html(f"{ESC}[")


def test_log_of_many_colors_gets_at_most_the_maximum_of_elements():
    shown = terminal_html(f"{ESC}[31mx" * (3 * MAX_COLORED))
    assert shown.count("<span") == MAX_COLORED
    assert terminal_html(f"{ESC}[31mx" * MAX_COLORED, 5).count("<span") == 5
    assert "\x1b" not in shown
