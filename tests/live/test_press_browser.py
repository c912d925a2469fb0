"""Live parts of the session page are not replaced while one of their controls is pressed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Response, expect

from sessions_app.search import indexing
from tests.browser import await_end
from tests.live.windows import event
from tests.timeline.nested_story import nest
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


def press(control: Locator) -> None:
    """Press the mouse button on a control, and keep the control as `window.pressed`."""
    control.hover()
    control.page.mouse.down()
    control.evaluate("element => { window.pressed = element }")


def release(page: Page) -> bool:
    """Release the button; return whether the pressed control was still there to get the click."""
    is_there: bool = page.evaluate("window.pressed.isConnected")
    page.mouse.up()
    return is_there


def is_part(target: str) -> Callable[[Response], bool]:
    return lambda response: response.request.headers.get("hx-target") == target


@pytest.fixture
def session_story(story: Story) -> Story:
    for number in range(1, 11):
        story.says(f"tea {number}", delta={"n": number})
    indexing.index_all()
    return story


def test_summary_of_a_nested_run_waits(open_page, story):
    story.calls("helper", "c1")
    run = nest(story, "r1", finished_at=None, event_count=1, stored_count=1, changed_at=1.0)
    page = open_page(story)
    with page.expect_websocket() as socket:
        page.reload()
    summary = event(page, 1).locator(f"[data-nested='{run.child_id}'] > summary")
    press(summary)
    with socket.value.expect_event("framereceived", lambda frame: '"nested"' in str(frame)):
        nest(story, "r1", finished_at=None, event_count=2, stored_count=2, changed_at=2.0)
    assert release(page)
    expect(summary).to_contain_text("2 events of agent helper")


def test_hits_of_a_search_wait(open_page, session_story):
    page = open_page(session_story, "?q=tea")
    hits = page.locator("#search-results a[data-hit]").first
    expect(hits).to_be_visible()
    press(hits)
    with page.expect_response(is_part("search-results")) as response:
        page.locator("#events").evaluate(
            "() => document.dispatchEvent(new CustomEvent('timeline:new-events'))"
        )
    await_end(response.value)
    assert release(page)


def test_results_of_the_palette_wait(open_page, session_story):
    page = open_page(session_story)
    page.keyboard.press("Control+k")
    option = page.locator("[role=option]").first
    expect(option).to_be_visible()
    with page.expect_response(is_part("go-sessions")) as response:
        page.keyboard.type("e")
        press(option)
    await_end(response.value)
    with page.expect_navigation():  # a window that closes while it begins to load a page may never close
        assert release(page)


@pytest.mark.parametrize("control", ["#inspection a", "#board .board-head .actions > a"])
def test_inspector_and_board_wait_while_another_event_is_loaded(open_page, session_story, control):
    page = open_page(session_story, "?seq=8")
    for seq in (7, 6):  # the next steps are fetched ahead
        page.keyboard.press("[")
        expect(page.locator("#board-title")).to_have_text(f"State at event {seq}")
    page.wait_for_load_state("networkidle")
    press(page.locator(control).first)
    page.keyboard.press("[")
    expect(page.locator(".time-slider-position")).to_have_text("5 / 10")
    page.wait_for_load_state("networkidle")
    assert release(page)
    expect(page.locator("#board-title")).not_to_have_text("State at event 6")
