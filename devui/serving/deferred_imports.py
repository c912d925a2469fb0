"""Background import of what the first page does not need: other pages, sockets and both APIs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from django.core.signals import request_finished
from django.urls import get_resolver

from devui.apis.urls import APIS
from sessions_app.routes import Route

DELAY_S = 1.0
"""Seconds between the first response and the imports: further requests of the first page take precedence."""


@contextmanager
def response_event() -> Iterator[asyncio.Event]:
    """Yield an event that every response sets."""
    loop, has_response = asyncio.get_running_loop(), asyncio.Event()

    def note_response(**_: Any) -> None:
        loop.call_soon_threadsafe(has_response.set)

    request_finished.connect(note_response)
    try:
        yield has_response
    finally:
        request_finished.disconnect(note_response)


async def import_after_first_page() -> None:
    """Import everything in a thread after the first response, so that no request waits for it."""
    with response_event() as has_response:
        await has_response.wait()
    await asyncio.sleep(DELAY_S)
    await asyncio.to_thread(import_everything)


def import_everything() -> None:
    """Import what requests import on demand."""
    pending = list(get_resolver().url_patterns)
    while pending:
        route = pending.pop()
        if isinstance(route, Route):
            route.import_view()
        pending += getattr(route, "url_patterns", ())
    import_module("devui.web.socket_routes")
    import_module(APIS)
    gc.freeze()  # imported objects stay
