"""A session page while events arrive: layout shift, and delay until an event is on the screen.

Each event contains the time of its creation, just before it is appended; the page records when it has painted the
event. Both use the clock of this machine, so the figure includes the append.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
from django.db import connection
from playwright.sync_api import Browser, Page

from benchmarks.chromium import chromium, new_page
from benchmarks.figures import Figure
from benchmarks.serving import OURS, ROOT, server
from benchmarks.stores import FOLDER, FULL, USER, ours

APP = "watched"
ARRIVING = 500
TIMED = 500 if FULL else 300
PAUSE = 0.05
"""Seconds between timed events, so that a page shows each by itself."""

AGENT = """import asyncio
import time

from google.adk.agents import BaseAgent
from google.adk.events.event import Event
from google.genai import types


class Teller(BaseAgent):
    async def _run_async_impl(self, context):
        for _ in range({events}):
            await asyncio.sleep({pause})
            part = types.Part(text=f"made {{time.time():.6f}}")
            yield Event(
                author=self.name,
                invocation_id=context.invocation_id,
                content=types.Content(role="model", parts=[part]),
            )


root_agent = Teller(name="teller")
"""

WRITER = """import asyncio, sys, time
import devui
devui.setup(migrate=False)
from google.adk.events.event import Event
from google.genai import types
from sessions_app.adk import DjangoSessionService

async def tell(app, user, name, events, pause):
    service = DjangoSessionService()
    session = await service.get_session(app_name=app, user_id=user, session_id=name)
    for number in range(int(events)):
        await asyncio.sleep(float(pause))
        part = types.Part(text=f"made {time.time():.6f}")
        content = types.Content(role="model", parts=[part])
        await service.append_event(session, Event(author="afar", invocation_id=f"i{number // 5}", content=content))

asyncio.run(tell(*sys.argv[1:]))
"""
"""Another process with its own session service, such as a script beside the server."""

CLOCK = """() => {
    window.shown = new Map();
    const look = () => {
        for (const event of document.querySelectorAll("#events [data-seq]")) {
            const made = /made (\\d+\\.\\d+)/.exec(event.textContent)?.[1];
            if (!made || window.shown.has(made)) continue;
            window.shown.set(made, null);
            requestAnimationFrame(() => {
                const painted = new MessageChannel();
                painted.port1.onmessage = () => {
                    window.shown.set(made, performance.timeOrigin + performance.now() - made * 1000);
                };
                painted.port2.postMessage(0);
            });
        }
    };
    new MutationObserver(look).observe(document.getElementById("window"), { childList: true, subtree: true });
}"""
"""Records for every event the milliseconds from its creation to a frame that shows it."""

SHIFT = """() => {
    window.shift = 0;
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.shift += entry.value;
    }).observe({ type: "layout-shift" });
}"""


def agents() -> Path:
    """Write the agent that sends its time; return the agents folder."""
    folder = FOLDER / "watched-agents"
    (folder / APP).mkdir(parents=True)
    (folder / APP / "__init__.py").write_text("from . import agent\n")
    (folder / APP / "agent.py").write_text(AGENT.format(events=TIMED, pause=PAUSE))
    return folder


@contextlib.contextmanager
def open_live_page(browser: Browser, address: str, name: str, query: str = "") -> Iterator[Page]:
    """Open the live page of a session."""
    page = new_page(browser)
    page.goto(f"{address}/sessions/{APP}/{USER}/{name}/{query}")
    page.locator("[data-live=live]").wait_for()
    yield page
    page.close()


def tell_from_afar(name: str, events: int, pause: float) -> None:
    """Append events from another process."""
    arguments = (APP, USER, name, str(events), str(pause))
    subprocess.run([sys.executable, "-c", WRITER, *arguments], cwd=ROOT, check=True)


def tell_from_runtime(address: str, name: str) -> None:
    """Append events from the agent's own process."""
    message = {"role": "user", "parts": [{"text": "go"}]}
    body = {"appName": APP, "userId": USER, "sessionId": name, "newMessage": message}
    httpx.post(f"{address}/run", json=body, timeout=600, trust_env=False).raise_for_status()


def delays(page: Page, tell: threading.Thread) -> list[float]:
    """Return the milliseconds from creation to paint of each event."""
    page.evaluate(CLOCK)
    tell.start()
    page.wait_for_function(
        "events => [...window.shown.values()].filter((late) => late !== null).length >= events",
        arg=TIMED,
        timeout=600_000,
    )
    tell.join()
    delays_ms: list[float] = page.evaluate("[...window.shown.values()]")
    return delays_ms


def shift(page: Page, name: str) -> float:
    """Return the page's cumulative layout shift while events arrive."""
    last = int(page.locator("#events").get_attribute("data-cursor") or 0)
    page.evaluate(SHIFT)
    tell_from_afar(name, ARRIVING, 0.0)
    page.wait_for_function(
        "last => Number(document.querySelector('.travel').dataset.last) >= last",
        arg=last + ARRIVING,
        timeout=120_000,
    )
    page.wait_for_timeout(500)
    layout_shift: float = page.evaluate("window.shift")
    return layout_shift


async def sessions(*names: str) -> None:
    """Create the sessions to watch."""
    for name in names:
        await ours().create_session(app_name=APP, user_id=USER, session_id=name)


def main() -> None:
    """Measure and print."""
    asyncio.run(sessions("followed", "read", "afar", "near"))
    connection.close()
    for name in ("followed", "read"):
        tell_from_afar(name, 100, 0.0)
    with server(OURS, agents=agents()) as (address, _), chromium() as browser:
        with open_live_page(browser, address, "followed") as page:
            followed = shift(page, "followed")
        with open_live_page(browser, address, "read") as page:
            page.locator("#timeline-scroll").hover()
            page.mouse.wheel(0, -600)
            read = shift(page, "read")
        with open_live_page(browser, address, "afar") as page:
            tell = threading.Thread(target=tell_from_afar, args=("afar", TIMED, PAUSE))
            afar = delays(page, tell)
        with open_live_page(browser, address, "near") as page:
            near = delays(page, threading.Thread(target=tell_from_runtime, args=(address, "near")))
    what = f"layout shift while {ARRIVING} events arrive"
    print(Figure(f"{what}, followed", "", followed, 0).as_line())
    print(Figure(f"{what}, scrolled up", "", read, 0).as_line())
    for delays_ms, whence, budget in ((near, "a runtime", 100), (afar, "a foreign process", 300)):
        what = f"event of {whence} on the screen"
        print(Figure(f"{what}, p50", "ms", statistics.median(delays_ms)).as_line())
        print(Figure(f"{what}, p99", "ms", statistics.quantiles(delays_ms, n=100)[-1], budget).as_line())


if __name__ == "__main__":
    main()
