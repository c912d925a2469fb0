"""Command palette in a real browser: entries, shortcuts, typing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from sessions_app.sessions import saved_views
from tests.browser import OpenWindow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    """A tab."""
    return open_window(server, color_scheme="light").new_page()


@pytest.fixture
def story(store: None) -> Story:
    """A session of three events."""
    new_story = Story("s1", user="ben")
    new_story.asks("Plan a trip")
    new_story.says("Where to?", delta={"step": 1})
    new_story.says("It is planned.", delta={"step": 2})
    return new_story


def open_palette(page: Page, address: str = "/") -> Locator:
    """Open a page and its palette; return what is typed into."""
    page.goto(address)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
    typed = page.get_by_role("combobox", name="Page, session or action")
    expect(typed).to_be_focused()
    return typed


SEARCH_ENTRY = "Search sessions for"
"""Text of the last entry, which is offered for any text."""


def options(page: Page) -> Locator:
    """Return the options but the last, which searches the events of all sessions."""
    return page.locator("#palette").get_by_role("option").filter(has_not_text=SEARCH_ENTRY)


def option(page: Page, text: str) -> Locator:
    return options(page).filter(has_text=text)


def chosen(page: Page) -> Locator:
    """Return the option that Enter would choose: the one the combobox names."""
    active = page.locator("#palette input").get_attribute("aria-activedescendant")
    return page.locator(f"#{active}[aria-selected=true]")


def test_the_button_opens_it_and_escape_gives_the_focus_back(page: Page):
    page.goto("/")
    button = page.get_by_role("link", name="Go to…")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Go to")).to_be_hidden()
    expect(button).to_be_focused()


def test_without_scripts_the_button_leads_to_a_page_of_places(open_window: OpenWindow, server: str, story):
    page = open_window(server, java_script_enabled=False).new_page()
    page.goto("/")
    page.get_by_role("link", name="Go to…").click()
    page.get_by_label("Part of a title").fill("trip")
    page.get_by_role("button", name="Find").click()
    page.locator("main").get_by_role("link", name="Plan a trip").click()
    expect(page.locator("h1")).to_have_text("Plan a trip")
    expect(page.locator("[data-theme-switch]")).to_be_hidden()


def test_a_place_is_reached_by_a_few_of_its_letters(page: Page):
    open_palette(page)
    page.keyboard.type("evl")
    expect(option(page, "Evals")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url("**/evals/")


def test_a_session_is_reached_by_its_user_from_any_page(page: Page, story: Story):
    Story("s2").asks("Something else")
    open_palette(page, "/runs/")
    expect(option(page, "Plan a trip")).to_contain_text("weather · ben · s1")
    page.keyboard.type("trip ben")
    expect(options(page)).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/sessions/weather/ben/s1/")


def test_saved_views_and_agents_are_offered(page: Page):
    saved_views.save("Broken ones", "errors_only=1")
    open_palette(page)
    page.keyboard.type("broken")
    option(page, "Broken ones").click()
    page.wait_for_url("**/sessions/?errors_only=1")
    open_palette(page)
    page.keyboard.type("writer")
    option(page, "writer").first.click()
    page.wait_for_url("**/agents/writer/")


def test_an_event_of_the_open_session_is_reached_by_its_number(page: Page, story: Story):
    open_palette(page, f"/sessions/id/{story.pk}/")
    page.keyboard.type("9")
    expect(option(page, "Event 9")).to_have_count(0)
    page.locator("#palette input").fill("#2")
    expect(option(page, "Event 2 of 3")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.locator("#inspector-title")).to_contain_text("event 2")
    page.wait_for_url("**?event=e2")


def test_commands_of_the_page_are_offered_and_executed(page: Page, story: Story):
    open_palette(page, f"/sessions/id/{story.pk}/")
    page.keyboard.type("pause")
    expect(option(page, "Pause")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.locator("[data-connection]")).to_have_text("paused")

    open_palette(page)
    page.keyboard.type("theme")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_arrows_move_the_choice_and_keep_it_when_answers_come(page: Page, story: Story):
    values: list[Route] = []
    open_palette(page)
    expect(option(page, "Plan a trip")).to_be_visible()
    page.route("**/go/?q=s", lambda route: values.append(route))
    with page.expect_request("**/go/?q=s"):
        page.keyboard.type("s")
    page.keyboard.press("ArrowDown")
    before = chosen(page).inner_text()
    with page.expect_response("**/go/?q=s"):
        values[0].continue_()
    expect(option(page, "Plan a trip")).to_be_visible()
    assert chosen(page).inner_text() == before
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    last = page.locator("#palette").get_by_role("option").last
    expect(last).to_have_attribute("aria-selected", "true")
    expect(last).to_be_in_viewport()


def test_input_before_first_response_filters_it(page: Page):
    values: list[Route] = []
    page.route(re.compile(r"/go/\?q=$"), lambda route: values.append(route))
    page.goto("/")
    page.keyboard.press("Control+k")
    with page.expect_response(re.compile(r"/go/\?q=writer$")):
        page.keyboard.type("writer")
    values[0].continue_()
    expect(option(page, "writer")).to_have_attribute("aria-selected", "true")


def test_ime_composition_neither_searches_nor_selects(page: Page, story: Story):
    typed = open_palette(page)
    session = page.context.new_cdp_session(page)
    session.send("Input.imeSetComposition", {"text": "とう", "selectionStart": 2, "selectionEnd": 2})
    expect(typed).to_have_value("とう")
    typed.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    typed.dispatch_event("keydown", {"key": "Enter", "keyCode": 229})
    expect(option(page, "Evals")).to_be_visible()
    session.send("Input.insertText", {"text": "東京"})
    expect(page.get_by_role("option")).to_have_text([f"{SEARCH_ENTRY} “東京”"])
    assert page.url.endswith("/")


def test_response_during_composition_does_not_search(page: Page, story: Story):
    values: list[Route] = []
    page.route("**/go/?q=", lambda route: values.append(route))
    typed = open_palette(page)
    page.context.new_cdp_session(page).send(
        "Input.imeSetComposition", {"text": "とう", "selectionStart": 2, "selectionEnd": 2}
    )
    expect(typed).to_have_value("とう")
    with page.expect_response("**/go/?q="):
        values[0].continue_()
    expect(option(page, "Plan a trip")).to_be_visible()
    expect(option(page, "Evals")).to_be_visible()


def test_it_does_not_open_over_a_dialog_and_keys_do_not_reach_the_page(page: Page, story: Story):
    page.goto("/sessions/")
    page.keyboard.press("?")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_hidden()
    page.keyboard.press("Escape")
    open_palette(page, "/sessions/")
    page.keyboard.type("g?")
    expect(page.locator("#help")).to_be_hidden()


def test_a_link_opens_in_another_tab_with_ctrl(page: Page, story: Story):
    open_palette(page)
    page.keyboard.type("evals")
    with page.context.expect_page() as new:
        page.keyboard.press("Control+Enter")
    assert new.value.url.endswith("/evals/")
    assert not page.url.endswith("/evals/")


def test_hostile_names_are_shown_harmlessly(page: Page, store: None):
    Story("s1").asks("<img src=x onerror=alert(1)> \u202eexe.txt")
    open_palette(page)
    page.keyboard.type("img")
    expect(option(page, "<img src=x onerror=alert(1)>")).to_contain_text("\\u202e")


def test_some_of_many_agents_are_shown_and_each_is_searchable(page: Page, agents_dir: Path):
    for number in range(300):
        (agents_dir / f"agent_{number:03}").mkdir()
        (agents_dir / f"agent_{number:03}" / "agent.py").write_text("")
    typed = open_palette(page)
    expect(page.locator("#palette")).to_contain_text("282 more: type some of their letters")
    assert options(page).count() < 60
    typed.fill("agent_287")
    expect(options(page).first).to_contain_text("agent_287")


@pytest.mark.parametrize("typed", ["ｗｒｉｔｅｒ", "WRITER"])
def test_letters_are_the_same_in_any_width_and_case(page: Page, typed: str):
    open_palette(page).fill(typed)
    expect(option(page, "writer").first).to_have_attribute("aria-selected", "true")


def test_click_beside_options_keeps_keyboard_focus(page: Page):
    typed = open_palette(page)
    page.locator(".palette-title").first.click()
    expect(typed).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(options(page).nth(1)).to_have_attribute("aria-selected", "true")


def test_it_fits_a_narrow_screen(open_window: OpenWindow, server: str, story: Story):
    page = open_window(server, viewport={"width": 390, "height": 700}, has_touch=True).new_page()
    page.goto("/sessions/")
    page.get_by_role("link", name="Go to").tap()
    box = page.get_by_role("dialog", name="Go to").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert box["y"] + box["height"] <= 700
    page.get_by_role("dialog", name="Go to").get_by_role("button", name="Close").tap()
    expect(page.get_by_role("dialog", name="Go to")).to_be_hidden()


def test_last_entry_searches_all_sessions(page: Page, story: Story):
    typed = open_palette(page)
    typed.fill("planned")
    last = page.locator("#palette").get_by_role("option").last
    expect(last).to_have_text(f"{SEARCH_ENTRY} “planned”")
    last.click()
    page.wait_for_url("**/sessions/?q=planned")
    expect(page.locator("a.row-link")).to_have_count(1)


def test_actions_that_need_events_are_not_offered_without_any(page: Page, story: Story):
    empty = Story("empty")
    open_palette(page, f"/sessions/id/{empty.pk}/")
    expect(option(page, "Rename the session")).to_have_count(1)
    expect(option(page, "Fork this session")).to_have_count(0)
    page.goto("about:blank")
    open_palette(page, f"/sessions/id/{story.pk}/")
    expect(option(page, "Fork this session")).to_have_count(1)
