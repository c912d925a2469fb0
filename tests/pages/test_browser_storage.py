"""Pages work when the browser refuses to store data or has no space left."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser import OpenWindow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]

REFUSED = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("The document is sandboxed", "SecurityError"); } })"""
FULL = """Storage.prototype.setItem = () => { throw new DOMException("No room", "QuotaExceededError"); }"""
ODD = """if (location.host) {
    localStorage.setItem("devui.watched.weather", '{"a": 1}');
    localStorage.setItem("devui.session.sessions", "wide");
    localStorage.setItem("devui.session.folded", "nothing detail");
    localStorage.setItem("devui-theme", "purple");
}"""


@pytest.fixture(params=[REFUSED, FULL, ODD], ids=["refused", "full", "odd"])
def page(request: pytest.FixtureRequest, open_window: OpenWindow, server: str) -> Page:
    """A tab of a browser that keeps nothing, or kept what nobody of ours wrote."""
    window = open_window(server, color_scheme="light")
    window.add_init_script(request.param)
    return window.new_page()


def test_settings_hold_for_the_page_without_storage(page: Page):
    story = Story("s1", initial={"city": "Paris"})
    story.asks("Where?")
    page.goto(f"/sessions/id/{story.pk}/")
    unfold = page.get_by_role("button", name="Fold the details")
    if unfold.get_attribute("aria-expanded") == "false":
        unfold.click()
    page.get_by_role("button", name="Watch city").click()
    expect(page.locator("#watched")).to_contain_text("city")
    page.get_by_role("button", name="Fold the sessions").click()
    expect(page.locator("#siblings")).to_be_hidden()
    page.locator("button[data-wide]").click()
    expect(page.locator("button[data-wide]")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name=re.compile("Theme: as the system")).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
