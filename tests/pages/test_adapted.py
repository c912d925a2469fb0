"""Pages in colours that a person forces, and on paper."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser import OpenWindow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]


def test_what_is_chosen_is_seen_without_tints(open_window: OpenWindow, server: str):
    page = open_window(server, forced_colors="active").new_page()
    page.goto("/sessions/")
    page.keyboard.press("Control+k")
    options = page.locator("#palette").get_by_role("option")
    expect(options.nth(0)).to_have_css("outline-style", "solid")
    expect(options.nth(1)).to_have_css("outline-style", "none")
    lines = "link => getComputedStyle(link).borderBlockEndColor"
    current, other = (
        page.locator(f".places a{which}").first.evaluate(lines)
        for which in ("[aria-current]", ":not([aria-current])")
    )
    assert current != other


@pytest.mark.parametrize("width", [700, 1100])
def test_a_session_is_printed_whole_in_light_colours(open_window: OpenWindow, server: str, width: int):
    story = Story("s1", initial={"city": "Paris"})
    story.asks("Weather in Paris?")
    for number in range(40):
        story.says(f"It is sunny, {number}.")
    window = open_window(server, color_scheme="dark", viewport={"width": width, "height": 600})
    page = window.new_page()
    page.goto(f"/sessions/id/{story.pk}/?seq=2")
    expect(page.locator("#inspector-title")).to_contain_text("event 2")
    page.emulate_media(media="print")
    expect(page.locator(".shell-header")).to_be_hidden()
    expect(page.locator("article.event").first).to_be_visible()
    expect(page.locator("#board")).to_contain_text("Paris")
    scroller = page.locator("#timeline-scroll")
    assert scroller.evaluate("one => one.scrollHeight <= one.clientHeight + 1"), "nothing is cut off"
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
