"""A session page in a browser, its connection to the server, and its visible events."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from tests.browser import OpenWindow
from tests.timeline.story import Story


class Line:
    """The line between a page and its server, to be cut and mended."""

    def __init__(self) -> None:
        self.calls = 0
        self._is_cut = False
        self._open: list[WebSocketRoute] = []

    def take(self, socket: WebSocketRoute) -> None:
        """Put a socket of the page through, or drop it."""
        self.calls += 1
        if self._is_cut:
            socket.close(code=1011)
            return
        socket.connect_to_server()
        self._open.append(socket)

    def cut(self) -> None:
        """Drop every socket, and those to come."""
        self._is_cut = True
        for socket in self._open:
            socket.close(code=1011)

    def mend(self) -> None:
        """Put sockets through again."""
        self._is_cut = False


@pytest.fixture
def open_page(open_window: OpenWindow, server: str, weather_can_run: None) -> Callable[..., Page]:
    """Opens a session in a window of its own, live, of an app that can be run."""

    def opened(story: Story, query: str = "", width: int = 1440, line: Line | None = None) -> Page:
        page = open_window(server, viewport={"width": width, "height": 800}).new_page()
        if line:
            page.route_web_socket(re.compile("/ws/"), line.take)
        page.goto(f"/sessions/id/{story.pk}/{query}")
        expect(page.locator("[data-live=live]")).to_be_visible()
        return page

    return opened


def event(page: Page, seq: int) -> Locator:
    """Return an event of the timeline."""
    return page.locator(f"#events [data-seq='{seq}']")


def seqs(page: Page) -> list[int]:
    numbers = page.evaluate("[...document.querySelectorAll('[data-seq]')].map(e => Number(e.dataset.seq))")
    return sorted(numbers)


def first_on_screen(page: Page) -> int:
    """Return the first event that is wholly on the screen, once nothing is loaded any more."""
    expect(page.locator("#timeline-scroll:not([aria-busy=true])")).to_be_attached()
    return page.evaluate(
        "() => { const { top } = document.getElementById('timeline-scroll').getBoundingClientRect();"
        " return Number([...document.querySelectorAll('#events [data-seq]')]"
        ".find(e => e.getBoundingClientRect().top > top + 40).dataset.seq) }"
    )


def top_of(page: Page, seq: int) -> float:
    return page.evaluate(
        "seq => document.querySelector(`#events [data-seq='${seq}']`).getBoundingClientRect().top", seq
    )


def is_at_end(page: Page) -> bool:
    return page.evaluate(
        "(e => e.scrollHeight - e.scrollTop - e.clientHeight < 40)(document.getElementById('timeline-scroll'))"
    )
