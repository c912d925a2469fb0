"""Search within a session in a real browser: counts, marks, steps between hits, only hits, live."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from sessions_app.timeline.session_search import hits, scan
from tests.browser import await_end
from tests.live.windows import event
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


@pytest.fixture
def session_story(story: Story) -> Story:
    """A session of 200 events; every fiftieth says where the needle is."""
    for number in range(1, 201):
        story.says(f"here is a needle {number}" if number % 50 == 0 else f"hay {number}")
    return story


def box(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Find in this session")


def hit_counter(page: Page) -> Locator:
    return page.locator(".search-hits > span").first


def expect_marked_texts(page: Page, texts: list[str]) -> None:
    """Wait until these words are highlighted: a window's words are highlighted when the hits in it are known."""
    page.wait_for_function(
        "texts => [...(CSS.highlights.get('search-hit') ?? [])].map(String).join() === texts.join()",
        arg=texts,
    )


def answer_handled(page: Page) -> None:
    """Return when the page has handled the answers that it has: another one is handled after them."""
    page.evaluate("fetch(location.href).then(response => response.text())")


def test_a_search_counts_marks_and_leads_from_hit_to_hit(open_page, session_story):
    page = open_page(session_story)
    page.keyboard.press("f")
    expect(box(page)).to_be_focused()
    box(page).press_sequentially("Needle")
    expect(hit_counter(page)).to_have_text("4 hits")
    page.wait_for_url("**?q=Needle")
    box(page).press("Enter")
    expect(page.locator("#inspector-title")).to_contain_text("event 200")
    expect(hit_counter(page)).to_have_text("4 of 4 hits")
    expect_marked_texts(page, ["needle"])
    box(page).blur()
    page.keyboard.press("n")
    expect(page.locator("#inspector-title")).to_contain_text("event 50")
    expect(event(page, 50)).to_be_in_viewport()
    expect(hit_counter(page)).to_have_text("1 of 4 hits")
    page.keyboard.press("Shift+N")
    expect(page.locator("#inspector-title")).to_contain_text("event 200")


def test_escape_ends_search_and_next_key_is_a_shortcut(open_page, session_story):
    page = open_page(session_story, "?seq=120")
    page.keyboard.press("f")
    box(page).press_sequentially("needle")
    expect(hit_counter(page)).to_have_text("4 hits")
    page.route("**", lambda route: None)  # the server is slow to answer from here on
    page.keyboard.press("Escape")
    expect(box(page)).to_have_value("")
    expect(event(page, 120).locator(".event-seq")).to_be_focused()
    page.keyboard.press("n")
    expect(page.locator(".search-hits")).to_have_count(0)
    expect(box(page)).to_have_value("")
    expect(page.locator("#inspector-title")).to_contain_text("event 120")
    expect(page).to_have_url(re.compile(r"\?seq=120$"))


def test_escape_closes_the_event_before_it_ends_the_search(open_page, session_story):
    page = open_page(session_story, "?q=needle&seq=120")
    expect(hit_counter(page)).to_have_text("4 hits")
    page.keyboard.press("Escape")
    expect(page.locator("#inspector-title")).to_have_text("Session")
    expect(hit_counter(page)).to_have_text("4 hits")
    page.keyboard.press("Escape")
    expect(page.locator(".search-hits")).to_have_count(0)


def test_each_fast_key_press_counts(open_page, story):
    for number in range(1, 101):
        story.says("needle" if number % 2 == 0 else "hay")
    page = open_page(story, "?q=needle&seq=2")
    expect(hit_counter(page)).to_have_text("1 of 50 hits")
    page.evaluate(
        "presses => { for (const key of presses) document.body.dispatchEvent("
        "new KeyboardEvent('keydown', { key, shiftKey: key === 'N', bubbles: true, cancelable: true })) }",
        ["n"] * 33 + ["N"] * 3,
    )
    expect(hit_counter(page)).to_have_text("31 of 50 hits")
    expect(page.locator("#inspector-title")).to_contain_text("event 62")


def test_long_search_continues_counting_and_opens_uncounted_hits(open_page, session_story, monkeypatch):
    monkeypatch.setattr(scan, "FIRST_BATCH", 10)
    monkeypatch.setattr(scan, "SCAN_S", 0.0)
    page = open_page(session_story, "?q=needle&seq=60")
    expect(hit_counter(page)).to_have_text("4 hits")
    page.locator("body").press("n")
    expect(page.locator("#inspector-title")).to_contain_text("event 100")
    page.locator("body").press("Shift+N")
    expect(page.locator("#inspector-title")).to_contain_text("event 50")
    page.get_by_label("only hits").check()
    expect(page.locator("#events [data-seq]")).to_have_count(4)


def test_hits_on_narrow_screen_are_stepped_through_in_timeline(open_page, session_story):
    page = open_page(session_story, "?q=needle", width=390)
    expect(hit_counter(page)).to_have_text("4 hits")
    page.get_by_role("link", name="Previous hit").click()
    expect(hit_counter(page)).to_have_text(re.compile("[1-4] of 4 hits"))
    page.get_by_role("link", name="Next hit").click()
    expect(page.locator("#events [aria-current=true].is-hit")).to_be_in_viewport()


def test_only_hits_are_shown_the_open_event_stays_and_back_leads_back(open_page, session_story):
    page = open_page(session_story, "?q=needle&seq=120")
    page.get_by_label("only hits").check()
    expect(page.locator("#events [data-seq]")).to_have_count(4)
    expect(page.locator("#inspector-title")).to_contain_text("event 120")
    page.wait_for_url("**only=1**")
    event(page, 100).locator(".event-seq").click()
    page.get_by_role("link", name="show in context").click()
    expect(page.get_by_label("only hits")).not_to_be_checked()
    expect(event(page, 101)).to_be_attached()
    expect(event(page, 100)).to_have_attribute("aria-current", "true")
    expect(event(page, 100)).to_be_in_viewport()


def test_events_that_come_live_join_the_count_and_the_hits(open_page, session_story):
    page = open_page(session_story, "?q=needle&only=1")
    expect(page.locator("#events [data-seq]")).to_have_count(4)
    session_story.says("hay again")
    session_story.says("one more needle")
    expect(hit_counter(page)).to_have_text("5 hits")
    expect(event(page, 202)).to_be_in_viewport()
    expect(event(page, 201)).to_have_count(0)
    page.get_by_label("only hits").uncheck()
    session_story.says("the last needle")
    expect(hit_counter(page)).to_have_text("6 hits")
    expect(page.locator("#events [data-seq='203'].is-hit")).to_be_visible()


def test_words_are_highlighted_in_a_window_that_comes_late(open_page, story):
    for text in ("hay", "needle"):
        story.says(text)
    page = open_page(story, "?q=needle&only=1")
    expect_marked_texts(page, ["needle"])
    windows: list[Route] = []

    def is_for(target: str) -> Callable[[Request], bool]:
        return lambda request: request.headers.get("hx-target") == target

    def hold_windows(route: Route) -> None:
        if is_for("window")(route.request):
            windows.append(route)
        else:
            route.continue_()

    page.route("**/sessions/**", hold_windows)
    with page.expect_request(is_for("window")):
        page.get_by_label("only hits").uncheck()
    with page.expect_request(is_for("window")), page.expect_request(is_for("search-results")) as refresh:
        story.says("the last needle")
    response = refresh.value.response()
    assert response
    await_end(response)
    answer_handled(page)
    expect(hit_counter(page)).to_have_text("2 hits")
    windows[-1].continue_()
    expect(page.locator("#events [data-seq]")).to_have_count(3)
    expect_marked_texts(page, ["needle", "needle"])


def test_hits_at_the_start_are_marked_when_a_key_leads_there(open_page, story):
    for number in range(1, 201):
        story.says("needle" if number == 1 else "hay\n\n" * 12 + str(number))
    page = open_page(story, "?q=needle")
    expect(hit_counter(page)).to_have_text("1 hit")
    page.keyboard.press("Home")
    expect(event(page, 1)).to_be_in_viewport()
    expect_marked_texts(page, ["needle"])


def test_late_count_does_not_replace_newer_hits(open_page, session_story, monkeypatch):
    monkeypatch.setattr(scan, "FIRST_BATCH", 10)
    monkeypatch.setattr(scan, "SCAN_S", 0.0)
    monkeypatch.setattr(hits, "LONG_SCAN_S", 60.0)
    page = open_page(session_story)
    counts: list[Route] = []
    page.route(re.compile("part=count"), lambda route: counts.append(route))
    with page.expect_request(re.compile("part=count")):
        box(page).fill("needle")
    page.evaluate("0")  # by then the route has got the request
    late = counts[0].fetch()
    assert "4 hits" in late.text()
    monkeypatch.setattr(scan, "SCAN_S", 60.0)
    session_story.says("one more needle")
    expect(hit_counter(page)).to_have_text("5 hits")
    with page.expect_response(re.compile("part=count")):
        counts[0].fulfill(response=late)
    answer_handled(page)
    expect(hit_counter(page)).to_have_text("5 hits")


def test_terms_are_completed_and_chips_applied(open_page, session_story):
    session_story.calls("get_weather", "c1", city="Paris")
    page = open_page(session_story)
    box(page).press_sequentially("tool:get")
    page.get_by_role("option", name="get_weather").click()
    expect(hit_counter(page)).to_have_text("1 hit")
    with page.expect_response(lambda response: response.request.headers.get("hx-target") == "chips") as chips:
        page.get_by_label("Kinds, authors and tools").click()
    await_end(chips.value)
    answer_handled(page)
    page.locator(".session-search-chips").get_by_role("link", name="agent response").click()
    expect(box(page)).to_have_value("tool:get_weather kind:agent")
    expect(hit_counter(page)).to_have_text("no event of this session matches")


def test_the_search_works_without_scripts(open_window, server, session_story):
    page = open_window(server, java_script_enabled=False).new_page()
    page.goto(f"/sessions/id/{session_story.pk}/")
    page.get_by_label("Find in this session").fill("needle")
    page.get_by_label("only hits").check()
    page.get_by_role("button", name="Find").click()
    expect(page.locator("#events [data-seq]")).to_have_count(4)
    page.get_by_role("link", name="Next hit").click()
    expect(page.locator("#inspector-title")).to_contain_text("event 50")
    page.get_by_role("link", name="show in context").click()
    expect(event(page, 51)).to_be_attached()
