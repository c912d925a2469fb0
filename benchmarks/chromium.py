"""Chromium for benchmarks. It loads nothing from other hosts, so that no page waits for one."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
SIZE = ViewportSize(width=1440, height=900)
STAY_HERE = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
"""No other host resolves. Playwright's routes would block them, too, but cost every request 10 to 30 ms."""


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium of `BENCH_CHROMIUM`, else the first on the path."""
    executable = os.environ.get("BENCH_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", STAY_HERE])
        yield browser
        browser.close()


def new_page(browser: Browser) -> Page:
    """Return an empty tab."""
    return browser.new_page(viewport=SIZE)


def performance_metrics(page: Page) -> dict[str, float]:
    """Return a page's figures after garbage collection: `Nodes`, `JSHeapUsedSize` in bytes, and more."""
    protocol = page.context.new_cdp_session(page)
    protocol.send("HeapProfiler.collectGarbage")
    protocol.send("Performance.enable")
    metrics: Any = protocol.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: metric["value"] for metric in metrics}
