"""A real browser and a real server for the tests of a module, over the tests' store."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest
import uvicorn
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Response,
    expect,
    sync_playwright,
)

from tests.patience import PATIENCE_S
from tests.required_programs import missing

NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
"""Programs in order of preference: the first takes three quarters of the time, for it has no window to draw."""

NAMED = os.environ.get("DEVUI_TEST_CHROMIUM")
CHROMIUM = next(filter(None, map(shutil.which, [NAMED] if NAMED else NAMES)), None)
NO_CHROMIUM = (
    f"no Chromium found ({NAMED or ', '.join(NAMES)}): install one, or name it in DEVUI_TEST_CHROMIUM"
)
FEATURES_OFF = [
    "WebUIOmniboxPopup",  # a renderer for every window, for suggestions below an address field that nobody sees
    "WebUIOmniboxAimPopup",
    "AimEnabled",  # from here on what Playwright turns off: the browser hears only the last list
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
]
CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    f"--disable-features={','.join(FEATURES_OFF)}",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EXPECTED = re.compile(
    r"Failed to load resource: (the server responded with a status of 4|net::ERR_(FAILED|INTERNET_DISCONNECTED))"
    r"|Response Status Error Code 4|htmx:sendError|htmx:sendAbort|htmx:afterRequest"
    r"|Blocked script execution in .* sandboxed|Failed to load resource: net::ERR_BLOCKED_BY_RESPONSE"
)
"""How the browser and htmx begin in the console when a request is refused or cut, or what is hostile is kept from
running, which a test may be about."""

PATIENCE_MS = 90_000
"""Milliseconds that a page may take: a machine that runs three workers may be slow."""

expect.set_options(timeout=PATIENCE_MS)

OpenWindow = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium. Playwright runs an event loop in this thread, where Django would refuse to ask the store.

    It ends with its module: asynchronous tests of the next would meet that loop.
    """
    if not CHROMIUM:
        missing(NO_CHROMIUM)
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """DevUI's own ASGI application on a free port; its address."""
    import devui.asgi  # at the top it would set Django up before pytest does

    config = uvicorn.Config(devui.asgi.application, port=0, log_level="warning", lifespan="off")
    running = uvicorn.Server(config)
    with closing(config.bind_socket()) as listening:
        listening.listen()  # before the thread gets that far a browser would be refused
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        running.should_exit = running.force_exit = True
        thread.join(timeout=PATIENCE_S)


@pytest.fixture
def open_window(browser: Browser) -> Iterator[OpenWindow]:
    """Opens windows. What their scripts throw and what the console reports, refusals aside, fails the test."""
    windows: list[BrowserContext] = []
    faults: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        is_missing_file = "status of 404" in message.text and "/static/" in message.location["url"]
        if message.type == "error" and (is_missing_file or not EXPECTED.match(message.text)):
            faults.append(f"{message.location['url']}: {message.text}")

    def watch(page: Page) -> None:
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", hear)

    def opened(base_url: str, **options: object) -> BrowserContext:
        window = browser.new_context(base_url=base_url, **options)
        window.set_default_timeout(PATIENCE_MS)
        window.on("page", watch)
        windows.append(window)
        return window

    yield opened
    for window in windows:
        window.close()
    assert faults == []


def await_end(response: Response) -> None:
    """Wait until a response has come whole, or the page has aborted its request.

    `Response.finished` waits for ever for one that is aborted after its head has come.
    """
    with suppress(Error):
        response.body()


COPIED = """async start => {
    const end = Date.now() + 60_000;
    for (;;) {
        const text = await navigator.clipboard.readText();
        if (text.startsWith(start) || Date.now() > end) return text;
        await new Promise(requestAnimationFrame);
    }
}"""


def clipboard_text(page: Page, start: str) -> str:
    """Return what is in the clipboard once it begins so. (Playwright's own waiting takes a promise for true.)"""
    text: str = page.evaluate(COPIED, start)
    return text
