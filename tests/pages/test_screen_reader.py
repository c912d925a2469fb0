"""Screen reader announcements and Tab order on the session page and lists, in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from sessions_app.runs import lifecycle as runs
from sessions_app.sessions import labels
from sessions_app.store.models import Run
from sessions_app.store.sessions import writes
from tests.browser import OpenWindow
from tests.live.windows import event
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]

HEAR = """
window.heard = [];
const REGIONS = "[role=status], [role=alert], [role=log], [aria-live]:not([aria-live=off])";
const said = new WeakMap();
function hear(node) {
    const region = (node.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.(REGIONS);
    const text = region?.innerText.replace(/\\s+/g, " ").trim();
    if (!region || said.get(region) === text) return;
    said.set(region, text);
    if (text) window.heard.push(text);
}
new MutationObserver((changes) => {
    for (const { target, addedNodes } of changes) {
        hear(target);
        for (const added of addedNodes) if (added.nodeType === Node.ELEMENT_NODE && added.matches(REGIONS)) hear(added);
    }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""
"""Keeps what a screen reader would say: the text of each live region, whenever it changes."""

STOP = """() => {
    const one = document.activeElement;
    if (one === document.body) return null;
    const box = one.getBoundingClientRect();
    const rings = [one, one.closest("label"), one.parentElement, one.closest(".row, article, li, tr")]
        .filter(Boolean).some((each) => {
            const style = getComputedStyle(each);
            return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none";
        });
    return {
        tag: one.outerHTML.slice(0, 200),
        name: one.ariaLabel || one.labels?.[0]?.innerText || one.innerText || one.title || "",
        is_seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        rings,
    };
}"""
"""What has the focus, and whether people see that it has; null at the end of the page."""

MAX_STOPS = 250

COUNTED = """(wanted) => wanted === window.heard
    .map((said) => Number(/(\\d+) new event/.exec(said)?.[1] ?? 0)).reduce((sum, each) => sum + each, 0)"""
"""Tells whether as many new events were announced."""


def walk(page: Page) -> list[dict[str, Any]]:
    """Press Tab until the focus has left the page; return what had it in turn."""
    stops: list[dict[str, Any]] = []
    while len(stops) < MAX_STOPS:
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if stop is None:
            return stops
        stops.append(stop)
    raise AssertionError(f"the focus does not leave the page: {stops[-3:]}")


def announcements(page: Page) -> list[str]:
    value: list[str] = page.evaluate("window.heard")
    return value


@pytest.fixture
def listening(open_window: OpenWindow, server: str) -> Page:
    """A tab whose live regions are listened to."""
    page = open_window(server, viewport={"width": 1440, "height": 800}).new_page()
    page.add_init_script(HEAR)
    return page


@pytest.fixture
def session_story(store: None) -> Story:
    """A session that has a little of everything."""
    story = Story()
    story.asks("Weather in Paris?")
    story.calls("get_weather", "c1", city="Paris")
    story.answers("get_weather", "c1", delta={"city": "Paris", "user:n": 1})
    story.says("It is sunny")
    return story


def test_many_events_are_announced_by_their_number_and_not_row_by_row(listening, session_story):
    listening.goto(f"/sessions/id/{session_story.pk}/")
    expect(listening.locator("[data-live=live]")).to_be_visible()
    for number in range(100):
        session_story.says(f"word {number}", delta={"n": number})
    expect(event(listening, 104)).to_be_visible()
    listening.wait_for_function(COUNTED, arg=100)
    texts = [text for text in announcements(listening) if "new event" in text]
    assert len(texts) < 10
    assert not any("word" in text for text in announcements(listening))


def test_playback_announces_where_it_stopped(listening, session_story):
    for number in range(30):
        session_story.says(f"word {number}", delta={"n": number})
    listening.goto(f"/sessions/id/{session_story.pk}/?seq=30")
    expect(listening.locator("[data-live=live]")).to_be_visible()
    listening.evaluate(
        "() => { for (let step = 0; step < 10; step += 1) document.body.dispatchEvent("
        "new KeyboardEvent('keydown', { key: ',', bubbles: true, cancelable: true })) }"
    )
    expect(listening.locator("#time-announcer")).to_have_text("State at event 20, which wrote n")
    assert [text for text in announcements(listening) if "State at" in text] == [
        "State at event 20, which wrote n"
    ]


def test_changing_list_announces_news_once(listening, session_story):
    listening.goto("/sessions/")
    expect(listening.locator(".session-table tbody tr")).to_have_count(1)
    writes.create_session(writes.SessionKey("", "weather", "ben", "s2"), title="Chess?")
    expect(listening.get_by_role("link", name="1 new or changed")).to_be_visible()
    for _ in range(2):
        with listening.expect_response(re.compile("/sessions/changes/")):
            pass
    labels.tag([session_story.pk], "seen")
    expect(listening.locator("tbody .tag")).to_have_text("seen")
    assert announcements(listening) == ["1 new or changed"]


def test_run_announces_start_and_outcome(listening, session_story):
    listening.goto(f"/sessions/id/{session_story.pk}/")
    expect(listening.locator("[data-live=live]")).to_be_visible()
    for status, word in ((Run.Status.FAILED, "The run: Failed"), (Run.Status.DONE, "The run is done")):
        run = runs.create_run(session_story.pk, {})
        expect(listening.locator("#run-announcer")).to_have_text("The agent runs")
        runs.finish(run.pk, status)
        expect(listening.locator("#run-announcer")).to_have_text(word)


def test_hits_are_announced_once(listening, session_story):
    listening.goto(f"/sessions/id/{session_story.pk}/")
    expect(listening.locator("[data-live=live]")).to_be_visible()
    listening.keyboard.press("f")
    listening.keyboard.insert_text("sunny")
    expect(listening.locator(".search-hits > span").first).to_have_text("1 hit")
    assert [text for text in announcements(listening) if "hit" in text] == ["1 hit"]


@pytest.mark.parametrize(
    "address",
    ["/sessions/id/{pk}/", "/sessions/id/{pk}/?seq=3&tab=raw", "/sessions/", "/state/?app=weather&user=ann"],
)
def test_the_tab_key_leads_through_the_page_in_order_and_out_again(
    open_window, server, session_story, address: str
):
    page = open_window(server, viewport={"width": 1440, "height": 800}).new_page()
    page.goto(address.format(pk=session_story.pk))
    page.wait_for_load_state("networkidle")
    there = walk(page)
    assert len(there) > 15
    assert there[0]["name"] == "Skip to content"
    assert not [stop for stop in there if not stop["name"].strip()]
    assert not [stop for stop in there if not stop["is_seen"]]
    assert not [stop for stop in there if not stop["rings"]]
    for stop in reversed(there):
        page.keyboard.press("Shift+Tab")
        assert page.evaluate(STOP)["tag"] == stop["tag"]
