"""A very long session in a real browser: the page stays bounded, and the visible rows never move."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sessions_app.store import events
from sessions_app.store.models import AgentSession, Event
from tests.live.windows import Line, event, first_on_screen, is_at_end, seqs, top_of
from tests.patience import PATIENCE_S
from tests.timeline.story import START, Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]

EVENTS = 3_000
MAX_EVENTS = 120
MAX_NODES = 4_000
STEP = 300


@pytest.fixture
def endless(story: Story) -> Story:
    """A session of very many events: invocations of a question, a call, its result and an answer."""
    Event.objects.bulk_create(_row(story.pk, seq) for seq in range(1, EVENTS + 1))
    AgentSession.objects.filter(pk=story.pk).update(last_seq=EVENTS, revision=EVENTS)
    story.told = EVENTS
    story.invocation = "now"
    return story


def _row(pk: int, seq: int) -> Event:
    number, step = divmod(seq - 1, 4)
    parts = (
        {"text": f"Question {number}?"},
        {"functionCall": {"id": f"c{number}", "name": "look_up", "args": {"number": number}}},
        {"functionResponse": {"id": f"c{number}", "name": "look_up", "response": {"found": number}}},
        {"text": f"Answer **{number}**. " * (1 + number % 7)},
    )
    record = events.build_record(
        {
            "id": f"e{seq}",
            "invocationId": f"i{number}",
            "author": "agent" if step else "user",
            "timestamp": START + seq,
            "content": {"parts": [parts[step]]},
        }
    )
    return Event(
        session_id=pk,
        seq=seq,
        event_id=record.event_id,
        invocation_id=record.invocation_id,
        author=record.author,
        kind=record.kind,
        timestamp=record.timestamp,
        is_final=record.is_final,
        summary=record.summary,
        data=record.data,
    )


def nodes(page: Page) -> int:
    """Return the nodes of the page as Chromium counts them, those of icons and attributes included."""
    protocol = page.context.new_cdp_session(page)
    protocol.send("HeapProfiler.collectGarbage")
    protocol.send("Performance.enable")
    metrics = protocol.send("Performance.getMetrics")["metrics"]
    return next(int(metric["value"]) for metric in metrics if metric["name"] == "Nodes")


def assert_intact(page: Page) -> None:
    """Hold the page to what it says of itself: every event between its bounds once, none twice, and not too many."""
    seqs, first, last, rows = page.evaluate(
        "() => { const seqs = place => [...place.querySelectorAll('[data-seq]')].map(event => +event.dataset.seq);"
        " const { first, last } = document.getElementById('events').dataset;"
        " return [seqs(document), +first, +last, [...document.querySelectorAll('.row')].map(seqs)] }"
    )
    assert set(range(first, last + 1)) <= set(seqs)
    assert len(seqs) == len(set(seqs)) <= MAX_EVENTS
    for row in rows:
        assert row == list(range(row[0], row[-1] + 1)), row


def wait_until_small(page: Page) -> None:
    """Wait until the page has let go of what is behind the reader: it does so after what has come is shown."""
    page.wait_for_function(
        "most => document.querySelectorAll('[data-seq]').length <= most", arg=MAX_EVENTS, timeout=60_000
    )


def wait_for_room(page: Page, distance: int) -> None:
    """Wait until as much is loaded as the wheel is to move: at the end of what is loaded it would stop short."""
    page.wait_for_function(
        "distance => { const e = document.getElementById('timeline-scroll');"
        " const room = distance < 0 ? e.scrollTop : e.scrollHeight - e.scrollTop - e.clientHeight;"
        " return e.getAttribute('aria-busy') !== 'true' && room >= Math.abs(distance) }",
        arg=distance,
    )


def wheel(page: Page, distance: int) -> None:
    """Turn the wheel, and hold the page to moving what is on the screen by just that."""
    wait_for_room(page, distance)
    page.locator("#timeline-scroll").hover()
    seq = first_on_screen(page)
    before = top_of(page, seq)
    page.mouse.wheel(0, distance)
    page.wait_for_function(
        "([seq, top]) => Math.abs(document.querySelector(`#events [data-seq='${seq}']`).getBoundingClientRect().top"
        " - top) < 2",
        arg=[seq, before - distance],
    )
    first_on_screen(page)
    assert abs(top_of(page, seq) - (before - distance)) < 2


def test_only_the_wheel_scrolls_and_the_page_stays_small(open_page, endless):
    page = open_page(endless)
    for _ in range(30):
        wheel(page, -STEP)
    assert_intact(page)
    assert EVENTS not in seqs(page)
    assert nodes(page) < MAX_NODES
    for _ in range(20):
        wheel(page, STEP)
    assert_intact(page)
    assert nodes(page) < MAX_NODES


def test_home_and_end_go_to_the_ends_of_the_session(open_page, endless):
    page = open_page(endless)
    assert is_at_end(page)
    page.keyboard.press("Home")
    expect(event(page, 1)).to_be_in_viewport()
    assert_intact(page)
    page.keyboard.press("End")
    expect(event(page, EVENTS)).to_be_in_viewport()
    assert_intact(page)
    endless.says("live again")
    expect(event(page, EVENTS + 1)).to_be_in_viewport()


def test_rail_shows_position_and_jumps_anywhere(open_page, endless):
    page = open_page(endless)
    rail = page.get_by_role("scrollbar", name="Place in the session")
    expect(rail).to_have_attribute("aria-valuenow", str(EVENTS))
    place = rail.bounding_box()
    page.mouse.click(place["x"] + 4, place["y"] + place["height"] / 2)
    middle = EVENTS // 2
    page.wait_for_function(
        "middle => Math.abs(Number(document.getElementById('rail').getAttribute('aria-valuenow')) - middle) < 60",
        arg=middle,
    )
    assert_intact(page)
    expect(event(page, middle)).to_be_in_viewport()
    rail.press("PageDown")
    page.wait_for_function("was => document.querySelector('#go-to input').value > was", arg=str(middle))
    page.mouse.click(place["x"] + 4, place["y"] + place["height"] - 1)
    expect(event(page, EVENTS)).to_be_in_viewport()


def test_event_opened_by_number_is_in_the_address(open_page, endless):
    page = open_page(endless)
    page.get_by_label("Go to event").fill("777")
    page.get_by_label("Go to event").press("Enter")
    expect(event(page, 777)).to_be_in_viewport()
    expect(event(page, 777)).to_have_attribute("aria-current", "true")
    page.wait_for_url("**777*")
    page.get_by_label("Go to event").fill("999999")
    page.get_by_label("Go to event").press("Enter")
    expect(event(page, EVENTS)).to_have_attribute("aria-current", "true")


def test_call_and_result_of_two_windows_merge_into_one_row(open_page, endless):
    page = open_page(endless, "?before=1403")
    expect(event(page, 1402)).to_be_attached()
    expect(page.locator(".row:has([data-seq='1402']) [data-seq='1403']")).to_be_attached()
    assert_intact(page)


def test_page_far_from_end_counts_new_events_and_loads_them_there(open_page, endless):
    page = open_page(endless, f"?around={EVENTS - 60}")
    read = first_on_screen(page)
    before = top_of(page, read)
    for number in range(12):
        endless.says(f"new {number}")
    expect(page.get_by_role("button", name="12 new")).to_be_visible()
    assert top_of(page, read) == before
    page.get_by_role("button", name="12 new").click()
    expect(event(page, EVENTS + 12)).to_be_in_viewport()
    assert_intact(page)


def test_page_open_all_day_stays_small_and_scrolls_back(open_page, endless):
    page = open_page(endless)
    for number in range(200):
        endless.says(f"event {number}")
    expect(event(page, EVENTS + 200)).to_be_in_viewport()
    wait_until_small(page)
    assert_intact(page)
    for _ in range(4):
        wheel(page, -STEP)
    assert_intact(page)


def test_events_received_while_paused_appear_once_in_order(open_page, endless):
    page = open_page(endless)
    page.get_by_role("button", name="Pause").click()
    for number in range(90):
        endless.says(f"unseen {number}")
    expect(page.locator("#unseen")).to_contain_text("90 new")
    assert seqs(page)[-1] == EVENTS
    page.get_by_role("button", name="Pause").click()
    expect(event(page, EVENTS + 90)).to_be_in_viewport()
    wait_until_small(page)
    assert_intact(page)
    expect(page.locator("#unseen")).to_be_hidden()


def test_a_lost_line_in_a_storm_loses_and_doubles_nothing(open_page, endless):
    line = Line()
    page = open_page(endless, line=line)
    for turn in range(3):
        endless.says(f"before {turn}")
        line.cut()
        expect(page.locator("[data-connection]")).to_have_text("offline")
        for number in range(15):
            endless.says(f"meanwhile {number}")
        line.mend()
        expect(page.locator("[data-connection]")).to_have_text("live")
    expect(event(page, EVENTS + 48)).to_be_in_viewport()
    assert_intact(page)


SHIFTS = """
() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const moved = entry.sources.map((s) => [s.node?.outerHTML?.slice(0, 90), s.previousRect.y, s.currentRect.y]);
      window.shifts.push([entry.value, JSON.stringify(moved)]);
    }
  }).observe({ type: "layout-shift" });
}
"""


@pytest.mark.parametrize("reading", [False, True])
def test_nothing_shifts_while_five_hundred_events_arrive(
    open_page: Callable[..., Page], endless: Story, reading: bool
) -> None:
    page = open_page(endless)
    other = open_page(Story("beside"))
    if reading:
        wheel(page, -2 * STEP)
    for window in (page, other):
        first_on_screen(page)
        window.evaluate(SHIFTS)
    for number in range(250):
        endless.calls("f", f"new{number}", text="x " * (number % 60))
        endless.answers("f", f"new{number}")
    if reading:
        expect(page.get_by_role("button", name="500 new")).to_be_visible()
    else:
        expect(event(page, EVENTS + 500)).to_be_in_viewport(timeout=1000 * PATIENCE_S)
    for window in (page, other):
        assert window.evaluate("window.shifts") == []
