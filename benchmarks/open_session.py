"""A session of 10,000 events (`--full`: 1,000,000) opened in Chromium: its first rows, its nodes, its memory.

For comparison, `adk web` with its own front end and DevUI open a session of 1,000 events (`--full`: 10,000) of the same
content: ADK's page loads and draws all of them, which took 88 s for 10,000.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.db import connection
from google.adk.events.event import Event
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from playwright.sync_api import Browser, Error, TimeoutError

from benchmarks.chromium import chromium, new_page, performance_metrics
from benchmarks.figures import Figure
from benchmarks.serving import ADK_WEB, OURS, NeverServed, server
from benchmarks.stores import APP, FOLDER, FULL, USER, WORDS, event, fill_sqlite, long_session

EVENTS = 1_000_000 if FULL else 10_000
PEER_EVENTS = 10_000 if FULL else 1_000
TURNS = 5
PEER_TURNS = 1
PATIENCE = 600.0 if FULL else 240.0
"""Longest time in seconds for `adk web`."""

REST_MS = 500
PEER_APP = "bench"
AGENT = """from google.adk.agents import LlmAgent

root_agent = LlmAgent(name="agent", model="none")
"""


@dataclass(frozen=True)
class Opened:
    """Figures of an opened page: seconds to its first visible row, nodes and megabytes of heap when it is idle."""

    seconds: float
    nodes: float
    heap: float


def open_page(browser: Browser, url: str, row: str, patience: float = 60.0) -> Opened:
    """Open a page and wait for the first element that `row` selects.

    Raises:
        TimeoutError: no element was visible within `patience` seconds.
    """
    page = new_page(browser)
    try:
        start = time.perf_counter()
        page.goto(url, wait_until="commit")
        page.locator(row).first.wait_for(state="visible", timeout=patience * 1000)
        seconds = time.perf_counter() - start
        page.wait_for_load_state("load", timeout=patience * 1000)
        page.wait_for_timeout(REST_MS)
        metrics = performance_metrics(page)
        return Opened(seconds, metrics["Nodes"], metrics["JSHeapUsedSize"] / 1e6)
    finally:
        page.close()


def median_of(times: Iterable[Opened]) -> Opened:
    """Return the median of each figure."""
    columns = zip(*((page.seconds, page.nodes, page.heap) for page in times), strict=True)
    return Opened(*map(statistics.median, columns))


def own_figures(browser: Browser) -> tuple[Opened, Opened]:
    """Return the figures of the long session, and of the one that the peer opens, too."""
    with server(OURS) as (address, _):
        medians = [
            median_of(
                open_page(browser, f"{address}/sessions/{APP}/{USER}/{name}/", "[data-seq]")
                for _ in range(TURNS)
            )
            for name in ("warm-up", "long", "short")
        ]
    return medians[1], medians[2]


def events(number: int) -> Iterable[Event]:
    """Yield the events of `long_session` as ADK's."""
    for seq in range(1, number + 1):
        agent_event = event(seq)
        agent_event.author = "user" if seq % 4 == 0 else "agent"
        yield agent_event


def peers_agents() -> Path:
    """Write an agent with sessions for `adk web`; return the agents folder."""
    folder = FOLDER / "adk-agents"
    (folder / PEER_APP / ".adk").mkdir(parents=True)
    (folder / PEER_APP / "__init__.py").write_text("from . import agent\n")
    (folder / PEER_APP / "agent.py").write_text(AGENT)
    database = folder / PEER_APP / ".adk" / "session.db"
    service = SqliteSessionService(str(database))
    asyncio.run(service.create_session(app_name=PEER_APP, user_id=USER, session_id="short"))
    fill_sqlite(database, PEER_APP, "short", events(PEER_EVENTS))
    return folder


def adk_web_figures(browser: Browser, agents: Path) -> Opened:
    """Return the figures of `adk web`.

    Raises:
        NeverServed: it did not start.
        TimeoutError: it showed nothing in time.
    """
    with server(ADK_WEB, "/dev-ui/", agents=agents) as (address, _):
        url = f"{address}/dev-ui/?app={PEER_APP}&userId={USER}&session=short"
        return median_of(open_page(browser, url, f"text={WORDS[:20]}", PATIENCE) for _ in range(PEER_TURNS))


def main() -> None:
    """Measure and print."""
    long_session("warm-up", 100)
    long_session("long", EVENTS)
    long_session("short", PEER_EVENTS)
    connection.close()
    agents = peers_agents()
    peer, peer_name = None, "adk web"
    with chromium() as browser:
        long, short = own_figures(browser)
        try:
            peer = adk_web_figures(browser, agents)
        except TimeoutError:
            peer_name = f"adk web: nothing within {PATIENCE:.0f} s"
        except (NeverServed, Error) as error:
            peer_name = f"adk web: {str(error).splitlines()[0]}"
    print_figures(EVENTS, long, None, "")
    print_figures(PEER_EVENTS, short, peer, peer_name)


def print_figures(number: int, own_figures: Opened, peer: Opened | None, name: str) -> None:
    """Print the figures of one session."""
    what = f"session of {number:,} events opened in Chromium"
    print(
        Figure(
            f"{what}, first rows", "s", own_figures.seconds, 0.8, peer.seconds if peer else None, name
        ).as_line()
    )
    print(Figure(f"{what}, nodes", "", own_figures.nodes, 4000, peer.nodes if peer else None, name).as_line())
    print(
        Figure(
            f"{what}, JavaScript heap", "MB", own_figures.heap, 30, peer.heap if peer else None, name
        ).as_line()
    )


if __name__ == "__main__":
    main()
