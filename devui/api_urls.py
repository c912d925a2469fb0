"""The addresses of the two APIs, which are built when one of them is asked, or behind the first page."""

from __future__ import annotations

import asyncio
from functools import cached_property
from importlib import import_module
from typing import Any, cast

from django.core.signals import request_finished
from django.urls.resolvers import RoutePattern, URLPattern, URLResolver
from django.utils.datastructures import MultiValueDict
from django.utils.translation import get_language

ADK = "devui-adk"
"""Namespace of ADK's own paths."""

V1 = "devui-v1"
"""Namespace of DevUI's own API."""

PAUSE_S = 1.0
"""Seconds that the first page has for what it asks itself, before the APIs are built beside it."""

APIS = "devui.api"


class ApiUrls(URLResolver):
    """What `path(route, api.urls)` makes of an API, for one that is not built yet.

    Whoever makes an address of a page has Django gather the names of all addresses. Those of an API lie in a namespace
    of its own, so they are gathered when one of them is asked for.
    """

    def __init__(self, route: str, namespace: str) -> None:
        """Stand at a route for the API of a namespace."""
        super().__init__(RoutePattern(route), APIS, app_name="ninja", namespace=namespace)

    @cached_property
    def url_patterns(self) -> list[URLPattern | URLResolver]:
        """The API's addresses; builds the APIs."""
        patterns: list[URLPattern | URLResolver] = import_module(APIS).PATTERNS[self.namespace]
        return patterns

    def _populate(self) -> None:
        """Tell Django, which asks while it gathers the names of all addresses, none."""

    @property
    def reverse_dict(self) -> MultiValueDict[str, Any]:
        """The names of the API's addresses; builds the APIs."""
        if get_language() not in self._reverse_dict:
            super()._populate()
        return cast(MultiValueDict[str, Any], self._reverse_dict[get_language()])


async def build_behind_first_page() -> None:
    """Build the APIs on a thread once something was answered: nobody is to wait for them, neither page nor program."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()

    def answer(**_: Any) -> None:
        loop.call_soon_threadsafe(answered.set)

    request_finished.connect(answer)
    await answered.wait()
    request_finished.disconnect(answer)
    await asyncio.sleep(PAUSE_S)
    await asyncio.to_thread(import_module, APIS)
