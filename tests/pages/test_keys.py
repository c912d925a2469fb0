"""Keyboard shortcuts: the help lists every shortcut, and every listed shortcut works."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from tests.browser import OpenWindow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]

LOOK = """() => JSON.stringify([
    location.href,
    document.activeElement?.outerHTML.slice(0, 300),
    [...document.querySelectorAll("dialog[open], details.menu[open]")].map((open) => open.outerHTML.length),
    [...document.querySelectorAll("main input")].map((input) => input.checked),
    [...document.querySelectorAll("main [class]")].map((one) =>
        [one.getAttribute("class"), one.ariaPressed, one.hidden]),
    document.getElementById("timeline-scroll")?.scrollTop,
    document.querySelector("main")?.innerText,
])"""
"""What a person would see change."""


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    """A tab."""
    return open_window(server, color_scheme="light").new_page()


@pytest.fixture
def story(store: None) -> Story:
    """A session of a few screens."""
    for number in range(2, 10):
        Story(f"s{number}")
    new_story = Story("s1")
    for number in range(40):
        new_story.says(f"event {number}", delta={"n": number})
    return new_story


def read_help(page: Page) -> dict[str, list[str]]:
    """Open the help; return what it says each shortcut does and which keys it names, as one presses them."""
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    rows = page.locator("#help dl").evaluate_all(
        """lists => lists.flatMap((list) => [...list.querySelectorAll("dt")].map((term) => [
            term.closest("dl").previousElementSibling.textContent + ": " + term.nextElementSibling.textContent,
            term.textContent,
        ]))"""
    )
    page.keyboard.press("Escape")
    return {does: keys.split(" or ") for does, keys in rows}


def press(page: Page, keys: str) -> None:
    """Press keys as the help writes them: in turn, or together with Shift or Ctrl."""
    first, *others = keys.split()
    if first in {"Shift", "Ctrl"}:
        page.keyboard.press("+".join([first.replace("Ctrl", "Control"), *others]))
        return
    for key in (first, *others):
        page.keyboard.press({"Esc": "Escape"}.get(key, key))


def open_session(page: Page, story: Story) -> None:
    page.goto(f"/sessions/id/{story.pk}/?seq=20")
    expect(page.locator("[data-live=live]")).to_be_visible()
    expect(page.locator("#inspector-title")).to_contain_text("event 20")


def open_list(page: Page, story: Story) -> None:
    page.goto("/state/?app=weather&user=ann")
    page.locator(".app-switcher summary").click()
    expect(page.locator(".app-switcher .menu-list")).to_contain_text("writer")


def open_sessions(page: Page, story: Story) -> None:
    page.goto("/sessions/")
    page.locator("main .pick input").nth(2).check()
    page.locator("main .row-link").nth(1).focus()


@pytest.mark.parametrize(("place", "least"), [(open_session, 12), (open_list, 8), (open_sessions, 14)])
def test_every_key_of_the_help_does_something(
    page: Page, story: Story, place: Callable[[Page, Story], None], least: int
):
    place(page, story)
    shortcuts = read_help(page)
    assert len(shortcuts) >= least
    for does, alternatives in shortcuts.items():
        for keys in alternatives:
            page.evaluate("localStorage.clear(); sessionStorage.clear()")
            place(page, story)
            before = page.evaluate(LOOK)
            press(page, keys)
            try:
                page.wait_for_function(f"before => ({LOOK})() !== before", arg=before, timeout=10_000)
            except TimeoutError as error:
                raise AssertionError(f"{keys} ({does}) does nothing") from error


def test_help_lists_only_commands_of_this_page(page: Page, story: Story):
    page.goto("/agents/weather/")
    assert "Everywhere: Search on this page" not in read_help(page)
    page.goto(f"/sessions/id/{story.pk}/")
    on_a_session = read_help(page)
    assert on_a_session["In this session: One event back in time"] == ["[", ","]
    assert "In this session: Close the event" not in on_a_session
    page.keyboard.press("k")
    expect(page.locator("#inspector-title")).to_contain_text("event 40")
    assert "In this session: Close the event" in read_help(page)


def test_keys_are_those_of_their_place_on_a_keyboard_of_other_letters(page: Page, story: Story):
    page.goto("/")
    for key, code in (("п", "KeyG"), ("ы", "KeyS")):
        page.locator("body").dispatch_event("keydown", {"key": key, "code": code})
    page.wait_for_url("**/sessions/")
    page.locator("body").dispatch_event("keydown", {"key": "л", "code": "KeyK", "ctrlKey": True})
    expect(page.locator("#palette")).to_be_visible()


def test_a_menu_is_closed_before_the_event(page: Page, story: Story):
    open_session(page, story)
    page.locator(".app-switcher summary").click()
    expect(page.locator(".app-switcher .menu-list")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".app-switcher .menu-list")).to_be_hidden()
    expect(page.locator("#inspector-title")).to_contain_text("event 20")
    page.keyboard.press("Escape")
    expect(page.locator("#inspector-title")).to_have_text("Session")


def test_the_first_stop_of_the_tab_key_leads_past_the_header(page: Page, story: Story):
    open_session(page, story)
    page.keyboard.press("Tab")
    link = page.get_by_role("link", name="Skip to content")
    expect(link).to_be_focused()
    expect(link).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_the_keys_of_shared_state_are_walked_and_each_opens_its_history(page: Page, story: Story):
    story.says("shared", delta={"app:limit": 1, "user:tier": "gold"})
    page.goto("/state/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/state/?app=weather")
    page.goto("/state/?app=weather&user=ann")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="app:limit", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("1 write")
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="app:limit", exact=True)).to_be_focused()
