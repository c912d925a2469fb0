"""The addresses of the two APIs, which are built at the first request to one of them, or after the first page."""

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

BUILD_DELAY_S = 1.0
"""Seconds between the first answer and building the APIs: the first page's own requests come first."""

APIS = "devui.apis.build"


class ApiUrls(URLResolver):
    """The addresses of an API as `path(route, api.urls)` gives them, built when they are first used.

    To reverse any address Django gathers the names of all. Those of an API are in a namespace of their own, so they are
    needed only when one of them is reversed.
    """

    def __init__(self, route: str, namespace: str) -> None:
        """Put the API of a namespace at a route."""
        super().__init__(RoutePattern(route), APIS, app_name="ninja", namespace=namespace)

    @cached_property
    def url_patterns(self) -> list[URLPattern | URLResolver]:
        """The API's addresses; builds the APIs."""
        patterns: list[URLPattern | URLResolver] = import_module(APIS).PATTERNS[self.namespace]
        return patterns

    def _populate(self) -> None:
        """Do nothing: Django calls this for the names of all addresses, and that would build the APIs."""

    @property
    def reverse_dict(self) -> MultiValueDict[str, Any]:
        """The names of the API's addresses; builds the APIs."""
        if get_language() not in self._reverse_dict:
            super()._populate()
        return cast(MultiValueDict[str, Any], self._reverse_dict[get_language()])


async def build_after_first_page() -> None:
    """Build the APIs in a thread after the first answer, so that no request waits for them."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()

    def answer(**_: Any) -> None:
        loop.call_soon_threadsafe(answered.set)

    request_finished.connect(answer)
    await answered.wait()
    request_finished.disconnect(answer)
    await asyncio.sleep(BUILD_DELAY_S)
    await asyncio.to_thread(import_module, APIS)
