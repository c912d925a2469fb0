"""A Chromium that a benchmark drives. Nothing is loaded from outside: a page waits for no other machine."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Route, ViewportSize, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
SIZE = ViewportSize(width=1440, height=900)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium that `BENCH_CHROMIUM` names, else the first on the path."""
    found = os.environ.get("BENCH_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def new_page(browser: Browser) -> Page:
    """Return an empty tab."""
    page = browser.new_page(viewport=SIZE)
    page.route("**/*", _stay_here)
    return page


def _stay_here(route: Route) -> None:
    if urlsplit(route.request.url).hostname == "127.0.0.1":
        route.continue_()
    else:
        route.abort()


def held(page: Page) -> dict[str, float]:
    """Return what a page holds once its garbage is gone: `Nodes`, `JSHeapUsedSize` in bytes, and more."""
    protocol = page.context.new_cdp_session(page)
    protocol.send("HeapProfiler.collectGarbage")
    protocol.send("Performance.enable")
    metrics: Any = protocol.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: metric["value"] for metric in metrics}
