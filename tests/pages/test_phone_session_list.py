"""Session list on a phone and without scripts, and rows that change while in use."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from sessions_app.delivery.failure import Failure
from sessions_app.runs import lifecycle
from sessions_app.sessions import labels
from sessions_app.store.models import AgentSession, Run
from tests.browser import OpenWindow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]

PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    """A tab on a phone."""
    return open_window(server, color_scheme="light", **PHONE).new_page()


def sheet(page: Page, title: str) -> Locator:
    """Open what can be done with a session; return the sheet."""
    page.get_by_role("button", name=f"More for {title}").tap()
    opened = page.locator(".row-actions-menu:popover-open")
    expect(opened).to_be_in_viewport(ratio=1)
    return opened


def test_row_has_one_button_for_its_actions(page: Page):
    Story("s1").asks("one")
    page.goto("/sessions/")
    expect(page.locator(".row-actions").get_by_role("button")).to_have_count(1)
    opened = sheet(page, "one")
    for control in opened.get_by_role("button").all() + opened.get_by_role("link").all():
        box = control.bounding_box()
        assert box
        assert box["height"] >= 44, "as large as a finger"
    page.touchscreen.tap(200, 100)
    expect(opened).to_be_hidden()


def test_short_title_opens_its_session_where_it_begins(page: Page):
    Story("s1").asks("one")
    page.goto("/sessions/")
    page.locator(".row-link").tap(position={"x": 4, "y": 8})
    page.wait_for_url("**/s1/")


def test_head_of_the_list_shows_while_the_keyboard_is_in_it(page: Page):
    Story("s1").asks("one")
    page.goto("/sessions/")
    link = page.locator("#sort-tokens")
    height = "head => head.getBoundingClientRect().height"
    assert page.locator("thead").evaluate(height) <= 1
    link.focus()
    expect(link).to_be_in_viewport(ratio=1)
    assert page.locator("thead").evaluate(height) > 20
    page.locator(".row-link").focus()
    assert page.locator("thead").evaluate(height) <= 1


def test_title_of_failed_session_on_home_is_readable(page: Page):
    story = Story("s1")
    story.asks("Write a report on tea, then one on coffee")
    run = lifecycle.create_run(story.pk, {})
    lifecycle.finish(run.pk, Run.Status.FAILED, Failure("", "The printer does not answer."))
    AgentSession.objects.update(problem_count=1)
    page.goto("/")
    row = page.locator(".session-links li", has_text="Write a report")
    expect(row).to_contain_text("failed")
    box = row.locator("a.truncate").bounding_box()
    assert box
    assert box["width"] >= 120


def test_a_session_is_pinned_renamed_deleted_and_brought_back(page: Page):
    Story("s1").asks("one")
    Story("s2").asks("two")
    page.goto("/sessions/")
    sheet(page, "one").get_by_role("button", name="Pin").tap()
    expect(page.locator("tbody tr", has_text="one").get_by_label("pinned")).to_be_visible()
    sheet(page, "one").get_by_role("link", name="Rename").tap()
    page.get_by_role("dialog").get_by_label("Title").fill("Number one")
    page.get_by_role("dialog").get_by_role("button", name="Rename").tap()
    expect(page.locator(".row-link", has_text="Number one")).to_be_visible()
    sheet(page, "Number one").get_by_role("button", name="Delete").tap()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator(".toast").get_by_role("button", name="Undo").tap()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_closing_returns_focus_to_the_row(page: Page):
    Story("s1").asks("one")
    page.goto("/sessions/")
    sheet(page, "one").get_by_role("link", name="Rename").tap()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="More for one")).to_be_focused()


def test_a_row_that_changes_leaves_its_open_sheet_open(page: Page):
    story = Story("s1")
    story.asks("one")
    page.goto("/sessions/")
    opened = sheet(page, "one")
    story.says("And here is the answer")
    expect(page.locator(".session-last")).to_have_text("And here is the answer")
    expect(opened).to_be_visible()
    opened.get_by_role("button", name="Delete").tap()
    expect(page.locator("tbody tr")).to_have_count(0)


def test_changed_row_keeps_focus_on_its_button(open_window: OpenWindow, server: str):
    story = Story("s1")
    story.asks("one")
    page = open_window(server).new_page()
    page.goto("/sessions/")
    button = page.get_by_role("button", name="Delete one")
    button.focus()
    labels.tag([story.pk], "seen")
    expect(page.locator("tbody .tag")).to_have_text("seen")
    expect(button).to_be_focused()


LONG = "x" * 240


@pytest.mark.parametrize(("address", "place"), [("/", "Agents"), ("/evals/", "Evals")])
def test_places_beside_a_long_name_are_not_cut_off(page: Page, address: str, place: str):
    Story(app=LONG)
    page.set_viewport_size({"width": 1070, "height": 800})
    page.goto(f"{address}?app={LONG}")
    places = page.locator(".places")
    assert places.evaluate("e => e.scrollWidth <= e.clientWidth")
    expect(places.get_by_role("link", name=place)).to_be_in_viewport(ratio=0.99)


@pytest.mark.parametrize("query", ["?seq=1", "?seq=1&diff=0"])
def test_no_tab_of_an_event_and_no_scope_of_the_board_is_cut_off(page: Page, query: str):
    story = Story("s1")
    story.says("one", delta={"n": 1})
    page.set_viewport_size({"width": 320, "height": 800})
    page.goto(f"/sessions/id/{story.pk}/{query}")
    for label in page.locator("#detail .radio-tabs label").all():
        box = label.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 320, label.inner_text()


@pytest.mark.parametrize(
    "address",
    [
        f"/sessions/?app={LONG}",
        f"/sessions/?q=kind:eror+{LONG}",
        f"/sessions/?q=app:{LONG}y",
        f"/state/?app={LONG}&user={LONG}",
        f"/state/?app={LONG}",
        f"/state/?app={LONG}y",
        f"/state/?user={LONG}",
        f"/sessions/{LONG}/{LONG}/y/",
    ],
    ids=lambda address: address.replace(LONG, "…"),
)
def test_names_of_any_length_widen_no_page(page: Page, address: str):
    Story(LONG, {f"user:{LONG}": LONG, "app:x": 1}, app=LONG, user=LONG).asks(LONG)
    page.goto(address)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_it_works_without_scripts(open_window: OpenWindow, server: str):
    Story("s1").asks("one")
    page = open_window(server, java_script_enabled=False, **PHONE).new_page()
    page.goto("/sessions/")
    sheet(page, "one").get_by_role("button", name="Pin").tap()
    expect(page.locator("tbody.pinned").get_by_label("pinned")).to_be_visible()
    sheet(page, "one").get_by_role("link", name="Rename").tap()
    expect(page.get_by_label("Title")).to_be_visible()


def test_without_scripts_times_are_full_and_no_shortcuts_shown(open_window: OpenWindow, server: str):
    Story("s1").asks("one")
    page = open_window(server, java_script_enabled=False, viewport={"width": 1280, "height": 800}).new_page()
    page.goto("/sessions/")
    time = page.locator("tbody td.fit").first
    expect(time).to_contain_text("UTC")
    assert time.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    expect(page.locator("kbd").locator("visible=true")).to_have_count(0)
    expect(page.locator("[data-tick-all]")).to_be_hidden()


def test_filters_are_folded_but_the_search_box(page: Page):
    Story("s1").asks("one")
    page.goto("/sessions/")
    form = page.get_by_role("search", name="Filter sessions")
    expect(form.get_by_label("Search sessions")).to_be_visible()
    expect(form.get_by_label("Age")).to_be_hidden()
    page.get_by_text("Filters", exact=True).tap()
    form.get_by_label("Age").select_option("idle")
    expect(page).to_have_url(re.compile("age=idle"))
    page.reload()
    expect(form.get_by_label("Age")).to_be_hidden()
    toggle = page.locator(".filters-toggle")
    assert toggle.evaluate("toggle => getComputedStyle(toggle, '::after').content") == '"set"'


@pytest.mark.parametrize(
    ("path", "name"), [("/runs/", "session"), ("/memory/", "q"), ("/artifacts/", "name")]
)
def test_search_boxes_of_lists_filter_as_one_types(page: Page, path: str, name: str):
    page.goto(path)
    page.locator(f".filters input[name={name}]").press_sequentially("tea")
    expect(page).to_have_url(re.compile(f"{name}=tea"))
