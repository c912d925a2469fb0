"""Sorting and hiding columns in a real browser: with the mouse, with the keyboard, and without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import OpenWindow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]


@pytest.fixture
def stories(store: None) -> None:
    """Three sessions of two apps, with 1, 3 and 2 events."""
    for name, app, count in (("one", "weather", 1), ("three", "writer", 3), ("two", "weather", 2)):
        story = Story(name, app=app)
        for _ in range(count):
            story.asks(name)


@pytest.fixture
def page(open_window: OpenWindow, server: str, stories: None) -> Page:
    """A tab."""
    return open_window(server, color_scheme="light").new_page()


def titles(page: Page) -> Locator:
    return page.locator(".session-table tbody .row-link")


def test_head_sorts_by_keyboard_and_keeps_the_focus(page: Page):
    page.goto("/sessions/")
    link = page.get_by_role("columnheader", name="Events").get_by_role("link")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Events")).to_have_attribute("aria-sort", "descending")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(titles(page)).to_have_text(["one", "two", "three"])
    expect(page.get_by_role("columnheader", name="Events")).to_have_attribute("aria-sort", "ascending")
    page.wait_for_url("**/sessions/?sort=events")
    page.keyboard.press("j")
    expect(titles(page).first).to_be_focused()


def test_filter_keeps_the_order_and_back_restores_it(page: Page):
    page.goto("/sessions/")
    page.get_by_role("columnheader", name="Events").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="Events")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("combobox", name="App", exact=True).select_option("weather")
    expect(titles(page)).to_have_text(["two", "one"])
    expect(page).to_have_url(re.compile("sort=-events"))
    page.go_back()
    expect(titles(page)).to_have_text(["three", "two", "one"])
    page.go_back()
    expect(page.get_by_role("columnheader", name="Updated")).to_have_attribute("aria-sort", "descending")


def test_columns_are_hidden_one_after_the_other_from_the_open_menu(page: Page):
    page.goto("/sessions/")
    page.locator(".table-menu > summary").click()
    for name in ("Tokens", "Events"):
        page.get_by_role("link", name=f"Hide {name}").click()
        expect(page.get_by_role("columnheader", name=name)).to_have_count(0)
        expect(page.get_by_role("link", name=f"Show {name}")).to_be_focused()
    page.get_by_role("link", name="Show Tokens").click()
    expect(page.get_by_role("columnheader", name="Tokens")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as CSV").click()
    assert (
        download.value.path().read_text().startswith("session,id,app,user,duration,tokens,problems,updated")
    )


def test_new_and_changed_sessions_arrive_in_a_sorted_list(page: Page):
    page.goto("/sessions/?sort=events&hide=id")
    four = Story("four", app="weather")
    for _ in range(4):
        four.asks("four")
    expect(page.get_by_role("link", name="1 new or changed")).to_be_visible()
    expect(titles(page)).to_have_text(["one", "two", "three"])
    page.get_by_role("link", name="1 new or changed").click()
    expect(titles(page)).to_have_text(["one", "two", "three", "four"])


def test_lists_are_sorted_without_scripts(open_window: OpenWindow, server: str, stories: None):
    page = open_window(server, java_script_enabled=False).new_page()
    page.goto("/sessions/")
    page.get_by_role("columnheader", name="Events").get_by_role("link").click()
    expect(titles(page)).to_have_text(["three", "two", "one"])
    page.locator(".table-menu > summary").click()
    page.get_by_role("link", name="Hide Tokens").click()
    expect(page.get_by_role("columnheader", name="Tokens")).to_have_count(0)
    page.locator("select[name=app]").select_option("weather")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(titles(page)).to_have_text(["two", "one"])


def test_phone_sorts_from_the_menu(open_window: OpenWindow, server: str, stories: None):
    page = open_window(server, viewport={"width": 390, "height": 800}).new_page()
    page.goto("/sessions/")
    page.locator(".table-menu > summary").click()
    page.locator(".table-menu").get_by_role("link", name="Events", exact=True).click()
    expect(titles(page)).to_have_text(["three", "two", "one"])
    expect(page.locator(".table-menu > summary")).to_have_text("By events, descending")
    expect(page.locator(".table-menu > summary")).to_be_focused()
