"""A session of 10,000 events (`--full`: 1,000,000) opened in Chromium: its first rows, its nodes, its memory.

`adk web` is no peer here: it took 88 s, 225,000 nodes and 615 MB once, measured by hand with its own front end.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from typing import Any

from django.db import connection
from playwright.sync_api import Browser, sync_playwright

from benchmarks.figures import Figure
from benchmarks.serving import OURS, server
from benchmarks.stores import APP, FULL, USER, long_session

EVENTS = 1_000_000 if FULL else 10_000
TURNS = 5
NO_PEER = "not run: adk web, see docs/benchmarks.md"


def opened(browser: Browser, url: str) -> tuple[float, dict[str, float]]:
    """Return the seconds to the first visible row, and what the page holds once it is at rest."""
    page = browser.new_page()
    start = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.locator("[data-seq]").first.wait_for(state="visible")
    seconds = time.perf_counter() - start
    page.wait_for_load_state("load")
    page.wait_for_timeout(500)
    protocol = page.context.new_cdp_session(page)
    protocol.send("HeapProfiler.collectGarbage")
    protocol.send("Performance.enable")
    found: Any = protocol.send("Performance.getMetrics")["metrics"]
    page.close()
    return seconds, {metric["name"]: metric["value"] for metric in found}


def main() -> None:
    """Measure and print."""
    long_session("long", EVENTS)
    connection.close()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with server(OURS) as (address, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("BENCH_CHROMIUM") or chromium, args=["--no-sandbox"]
        )
        url = f"{address}/sessions/{APP}/{USER}/long/"
        found = [opened(browser, url) for _ in range(TURNS + 1)][1:]
        browser.close()
    seconds = statistics.median(time for time, _ in found)
    nodes = statistics.median(metrics["Nodes"] for _, metrics in found)
    heap = statistics.median(metrics["JSHeapUsedSize"] for _, metrics in found) / 1e6
    what = f"session of {EVENTS:,} events opened in Chromium"
    print(Figure(f"{what}, first rows", "s", seconds, 0.8, None, NO_PEER).as_line())
    print(Figure(f"{what}, nodes", "", nodes, 4000, None, NO_PEER).as_line())
    print(Figure(f"{what}, JavaScript heap", "MB", heap, 30, None, NO_PEER).as_line())


if __name__ == "__main__":
    main()
