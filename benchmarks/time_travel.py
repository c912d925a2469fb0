"""Stepping through the state of a session: from a key press to the painted board, in Chromium.

The browser measures the time from the key to the frame that shows the board of the next event. The server's share, the
processor time of the response and its bytes, is measured separately, without a browser.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator

from django.db import connection
from django.test import Client, override_settings
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from playwright.sync_api import Browser, Page

from benchmarks.chromium import chromium, new_page
from benchmarks.figures import Figure
from benchmarks.serving import OURS, server
from benchmarks.stores import APP, FULL, USER, fill_ours, long_session, ours, session_of
from sessions_app.state.state_board import current_state_mark
from sessions_app.store.models import AgentSession

EVENTS = 10_000
KEYS = 300
LONG = 1_000_000 if FULL else 100_000
LONG_KEYS = 300
STEPS = 100
WARM_UP = 10
BUDGET_MS = 50

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
"""Records the time from each key to the frame that shows the board of another event."""


def create_sessions() -> None:
    """Create a session whose events write one key after the other, and a long one with as many keys."""
    asyncio.run(session_of(ours(), "steps", state={f"key{number}": 0 for number in range(KEYS)}))
    fill_ours("steps", (step_event(number) for number in range(EVENTS)))
    long_session("long", LONG)
    fill_ours("long", (step_event(number) for number in range(LONG_KEYS)))


def step_event(number: int) -> Event:
    """Return an event that writes one of the keys."""
    return Event(
        author="agent",
        invocation_id=f"i{number // 4}",
        content=types.Content(role="model", parts=[types.Part(text=f"This is step {number}.")]),
        actions=EventActions(state_delta={f"key{number % KEYS}": {"step": number, "of": ["a", "list"]}}),
    )


def times_of(page: Page, key: str, steps: int) -> list[float]:
    """Return the milliseconds of each step."""
    page.evaluate(CLOCK)
    for number in range(1, steps + 1):
        page.keyboard.press(key)
        page.wait_for_function("number => window.steps.length === number", arg=number)
    times: list[float] = page.evaluate("window.steps")
    return times


def paint_times(browser: Browser, address: str, name: str, start: int) -> list[float]:
    """Return the milliseconds from key to painted board for steps back from an event."""
    page = new_page(browser)
    page.goto(f"{address}/sessions/{APP}/{USER}/{name}/?seq={start}")
    page.locator("[data-live=live]").wait_for()
    return times_of(page, "[", WARM_UP + STEPS)[WARM_UP:]


def response_costs(name: str, start: int) -> Iterator[tuple[float, int]]:
    """Yield processor time in milliseconds and bytes of each step's response."""
    session = AgentSession.objects.get(app_name=APP, user_id=USER, session_id=name)
    client, mark = Client(), current_state_mark(session)
    headers = {"HX-Request": "true", "HX-Target": "board"}
    for seq in range(start, start - WARM_UP - STEPS, -1):
        query: dict[str, str | int] = {"seq": seq - 1, "known": seq, "mark": mark}
        start_time = time.process_time()
        answer = client.get(f"/sessions/id/{session.pk}/", query, headers=headers)
        milliseconds = (time.process_time() - start_time) * 1000
        if start - seq >= WARM_UP:
            yield milliseconds, len(answer.content)


def print_figures(what: str, paint_ms: list[float], responses: list[tuple[float, int]]) -> None:
    """Print the figures of a session."""
    step = f"a step back in time, {what}"
    milliseconds, sizes = zip(*responses, strict=True)
    figures = (
        Figure(
            f"{step}: key to painted board, median of {STEPS}",
            "ms",
            statistics.median(paint_ms),
            BUDGET_MS,
        ),
        Figure(f"{step}: key to painted board, p95", "ms", statistics.quantiles(paint_ms, n=20)[-1]),
        Figure(f"{step}: processor time of the answer, median", "ms", statistics.median(milliseconds)),
        Figure(f"{step}: the answer, median", "kB", statistics.median(sizes) / 1000),
    )
    for figure in figures:
        print(figure.as_line())


def main() -> None:
    """Measure and print."""
    create_sessions()
    sessions = {
        "steps": (f"{EVENTS:,} events, {KEYS} keys", EVENTS // 2),
        "long": (f"{LONG + LONG_KEYS:,} events, {LONG_KEYS + 1} keys", LONG + LONG_KEYS),
    }
    connection.close()
    paint_ms: dict[str, list[float]] = {}
    with server(OURS) as (address, _), chromium() as browser:
        for name, (_, start) in sessions.items():
            paint_ms[name] = paint_times(browser, address, name, start)
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        for name, (what, start) in sessions.items():
            print_figures(what, paint_ms[name], list(response_costs(name, start)))


if __name__ == "__main__":
    main()
