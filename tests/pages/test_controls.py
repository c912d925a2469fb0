"""Shared controls: icon links and buttons, dialog heads, stored preferences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template import Context, Template

from sessions_app.templatetags.controls import address
from tests.pages.html import Element, parse

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "static" / "devui"
TEMPLATES = ROOT / "templates" / "devui"


def render(markup: str, **names: object) -> Element:
    return parse(Template("{% load controls %}" + markup).render(Context(names)))


def test_address_tag_has_the_given_parameters():
    assert address("session-new") == "/sessions/new/"
    assert address("session-new", app=None) == "/sessions/new/"
    assert address("session-new", app="a&b=c", user="") == "/sessions/new/?app=a%26b%3Dc&user="
    assert address("session-fork", 7, seq=3) == "/sessions/id/7/fork/?seq=3"
    assert address("", seq=3) == "?seq=3"


def test_icon_link_has_label_and_title():
    link = render('{% icon_link "fork" "Fork" "/fork/?a=1&b=2" title="Fork…" data_step="-1" %}').one("a")
    assert (link.attrs["href"], link.attrs["aria-label"], link.attrs["title"]) == (
        "/fork/?a=1&b=2",
        "Fork",
        "Fork…",
    )
    assert link.attrs["data-step"] == "-1"
    assert link.one("svg").one("use").attrs["href"].endswith("#fork")
    assert not {"hx-get", "hidden", "data-command"} & set(link.attrs)


def test_a_link_into_the_dialog_is_a_link_without_scripts():
    for link in (
        render('{% icon_link "fork" "Fork" "/fork/" dialog=True %}').one("a"),
        render('<a {% in_dialog "/fork/" %}>Fork</a>').one("a"),
    ):
        assert {link.attrs[name] for name in ("href", "hx-get")} == {"/fork/"}
        assert link.attrs["hx-target"] == "#dialog-content"


def test_control_name_shows_invisible_characters():
    button = render('{% icon_button "copy" "Copy" of=id data_copy=id %}', id='"><b>\u202ex').one("button")
    assert button.attrs["aria-label"] == r'Copy "><b>\u202ex'
    assert button.attrs["data-copy"] == '"><b>\u202ex', "what is copied is what stands there"


def test_a_list_is_narrowed_by_a_form_that_works_without_scripts():
    markup = '{% filters "Filter runs" "runs" button="Go" %}<input name="app">{% endfilters %}'
    form = render(markup).one("form", css="filters")
    assert (form.attrs["action"], form.attrs["method"]) == ("/runs/", "get")
    assert (form.attrs["hx-get"], form.attrs["hx-target"]) == ("/runs/", "#runs")
    assert form.attrs["hx-trigger"] == "submit, change, input delay:250ms from:(.filters input[data-search])"
    assert form.one("noscript").one("button").text == "Go"
    assert form.one("input").attrs["name"] == "app"


@pytest.mark.parametrize(
    ("expected", "is_hidden"), [(True, False), (None, True), ("", True), ("there", False)]
)
def test_a_control_is_hidden_that_has_nothing_to_be_shown_for(expected: object, is_hidden: bool):
    button = render('{% icon_button "pin" "Pin" is_visible=is_visible %}', is_visible=expected).one("button")
    assert ("hidden" in button.attrs) == is_hidden


def test_dialog_head_has_title_icon_and_close_button():
    head = render(
        '{% dialog_head "/back/?a=1" scope="user" %}Key <bdi>{{ key }}</bdi>{% enddialog_head %}', key="<b>"
    )
    assert head.one("h1", id="dialog-title").text == "Key <b>"
    assert head.one("abbr").attrs["aria-label"] == "user scope"
    assert head.one("a", data_close_dialog="").attrs["href"] == "/back/?a=1"


@pytest.mark.parametrize(
    ("how", "css", "is_off"), [("", "primary", False), ("is_danger=True is_off=run", "danger", True)]
)
def test_dialog_foot_has_action_and_cancel(how: str, css: str, is_off: bool):
    acts = render(
        f'{{% dialog_buttons back "delete" leave="Keep it" {how} %}}Go{{% enddialog_buttons %}}',
        back="/<b>",
        run="r1",
    )
    button, leave = acts.one("button"), acts.one("a", data_close_dialog="")
    assert (button.text, f"button-{css}" in button.attrs["class"], "disabled" in button.attrs) == (
        "Go",
        True,
        is_off,
    )
    assert (leave.text, leave.attrs["href"]) == ("Keep it", "/<b>")


def test_browser_storage_is_used_in_one_module_and_before_paint():
    touching = {
        path.name for path in STATIC.rglob("*.js") if re.search(r"(local|session)Storage", path.read_text())
    }
    assert touching == {"storage.js", "boot.js"}


@pytest.mark.parametrize("setting", ["theme", "timeline"])
def test_stored_setting_is_applied_before_first_paint(setting: str):
    [key] = re.findall(rf'{setting}: "([^"]+)"', (STATIC / "js/core/storage.js").read_text())
    assert f'localStorage.getItem("{key}")' in (STATIC / "js/core/boot.js").read_text()


def test_dialog_content_keeps_distance_from_its_head():
    bodies = {
        path.name: re.findall(r'class="(dialog-body[^"]*)"', path.read_text())
        for path in TEMPLATES.rglob("*.html")
    }
    assert [name for name, classes in bodies.items() if "dialog-body" in classes] == [], (
        "say `stack`, or a layout"
    )


def test_errors_at_fields_are_coloured_on_every_page():
    """The frame of all pages loads forms.css; style sheets of single pages leave the rule to it."""
    assert [
        file.name
        for file in (STATIC / "css").rglob("*.css")
        if re.search(r"^\S*\.error-text\b|\s\.error-text\b", file.read_text(), re.M)
    ] == ["forms.css"]
