"""Stepping through the state of a session: from a key pressed to the board painted, in Chromium."""

from __future__ import annotations

import asyncio
import statistics

from django.db import connection
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from playwright.sync_api import Page

from benchmarks.chromium import chromium, new_page
from benchmarks.figures import Figure
from benchmarks.serving import OURS, server
from benchmarks.stores import APP, USER, fill_ours, ours, session_of

EVENTS = 1000
KEYS = 50
STEPS = 100
WARM_UP = 10

CLOCK = """() => {
    window.steps = [];
    let start = 0;
    let seen = document.querySelector(".board").dataset.at;
    document.addEventListener("keydown", (event) => { start = event.timeStamp; }, true);
    new MutationObserver(() => {
        const at = document.querySelector(".board")?.dataset.at;
        if (!at || at === seen) return;
        seen = at;
        requestAnimationFrame(() => {
            const painted = new MessageChannel();
            painted.port1.onmessage = () => window.steps.push(performance.now() - start);
            painted.port2.postMessage(0);
        });
    }).observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-at"] });
}"""
"""Notes the time from each key to the frame that shows the board of another event."""


def story() -> None:
    """Make a session whose events write one key after the other."""
    asyncio.run(session_of(ours(), "steps", state={f"key{number}": 0 for number in range(KEYS)}))
    fill_ours("steps", (told(number) for number in range(EVENTS)))


def told(number: int) -> Event:
    """Return an event that writes one of the keys."""
    return Event(
        author="agent",
        invocation_id=f"i{number // 4}",
        content=types.Content(role="model", parts=[types.Part(text=f"This is step {number}.")]),
        actions=EventActions(state_delta={f"key{number % KEYS}": {"step": number, "of": ["a", "list"]}}),
    )


def times_of(page: Page, key: str, steps: int) -> list[float]:
    """Return the milliseconds that each step took."""
    page.evaluate(CLOCK)
    for number in range(1, steps + 1):
        page.keyboard.press(key)
        page.wait_for_function("number => window.steps.length === number", arg=number)
    found: list[float] = page.evaluate("window.steps")
    return found


def main() -> None:
    """Measure and print."""
    story()
    connection.close()
    with server(OURS) as (address, _), chromium() as browser:
        page = new_page(browser)
        page.goto(f"{address}/sessions/{APP}/{USER}/steps/?seq={EVENTS // 2}")
        page.locator("[data-live=live]").wait_for()
        times = times_of(page, "[", WARM_UP + STEPS)[WARM_UP:]
    what = f"a step back in time, {KEYS} keys, key to painted board"
    print(Figure(f"{what}, median of {STEPS}", "ms", statistics.median(times), 50).as_line())
    print(Figure(f"{what}, p95", "ms", statistics.quantiles(times, n=20)[-1]).as_line())


if __name__ == "__main__":
    main()
