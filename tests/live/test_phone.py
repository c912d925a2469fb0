"""Session page on a phone: numbers stay on one line, and nothing is cut off at the right edge."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from sessions_app.store.models import AgentSession, Event
from tests.browser import OpenWindow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]

PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    """A tab on a phone."""
    return open_window(server, **PHONE).new_page()


def test_figures_of_a_long_session_fit_one_line_with_icons(page: Page, story: Story):
    for text in ("one", "two"):
        story.asks(text)
    Event.objects.filter(session_id=story.pk, seq=2).update(seq=1_234_567)
    AgentSession.objects.filter(pk=story.pk).update(last_seq=1_234_567)
    page.goto(f"/sessions/weather/ann/{story.key.session_id}/")
    number = page.locator("[data-seq='1234567'] > .event-seq")
    expect(number).to_be_visible()
    lines, beyond = number.evaluate(
        "e => { const text = document.createRange(); text.selectNodeContents(e);"
        " return [text.getClientRects().length, e.scrollWidth - e.clientWidth] }"
    )
    assert lines == 1
    assert beyond <= 0


def test_the_event_and_the_board_are_as_wide_as_the_screen(page: Page, story: Story):
    story.says("one", delta={f"key_{number}": number for number in range(40)})
    page.goto(f"/sessions/weather/ann/{story.key.session_id}/?seq=1")
    close = page.locator(".inspector").get_by_role("link", name="Close")
    expect(close).to_be_in_viewport(ratio=1)
    for tabs in page.locator("#detail .radio-tabs").all():
        tabs.locator("label").last.click()
        expect(tabs.locator("label").last).to_be_in_viewport(ratio=0.9)
