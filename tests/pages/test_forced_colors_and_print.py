"""Pages with forced colors and in print."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from sessions_app.runs import lifecycle as runs
from sessions_app.store.models import Run
from tests.browser import OpenWindow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]


def test_selection_is_visible_in_forced_colors(open_window: OpenWindow, server: str):
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


def test_selection_is_visible_without_background_colors(open_window: OpenWindow, server: str):
    story = Story("s1")
    for number in range(60):
        story.says(f"It is sunny, {number}.", delta={"n": number})
    page = open_window(server, forced_colors="active").new_page()
    page.goto(f"/sessions/id/{story.pk}/?seq=30")
    expect(page.locator("#events [data-seq='30']")).to_have_css("outline-style", "solid")
    expect(page.locator("#events [data-seq='29']")).to_have_css("outline-style", "none")
    line = "label => getComputedStyle(label).borderBlockEndColor"
    for tabs in (page.locator(".inspector > .radio-tabs"), page.locator(".board > .radio-tabs")):
        chosen, other = (
            tabs.locator(f"label{which}").first for which in (":has(:checked)", ":not(:has(:checked))")
        )
        assert chosen.evaluate(line) != other.evaluate(line)
    paper, handle = (
        page.locator(place).evaluate("place => getComputedStyle(place).backgroundColor")
        for place in (".rail", ".rail-handle")
    )
    assert paper != handle
    expect(page.get_by_role("slider", name="Event")).to_have_css("appearance", "auto")


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


MOVING = """() => document.getAnimations()
    .filter((one) => one.playState === "running" && one.effect.getComputedTiming().activeDuration > 1)
    .map((one) => `${one.animationName ?? one.transitionProperty} of ${one.effect.target.className}`)"""


@pytest.mark.parametrize("address", ["/sessions/id/{pk}/", "/sessions/"])
def test_reduced_motion_stops_animations(open_window: OpenWindow, server: str, address: str):
    story = Story("s1")
    story.asks("Weather?")
    runs.create_run(story.pk, {})
    Run.objects.update(status=Run.Status.RUNNING)
    page = open_window(server, reduced_motion="reduce").new_page()
    page.goto(address.format(pk=story.pk))
    expect(page.locator(".spin").first).to_be_visible()
    story.says("It is sunny")
    page.get_by_text("It is sunny").first.wait_for()
    assert page.evaluate(MOVING) == []
