"""URLs of the two APIs, which are built when one of their URLs is first needed."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any, cast

from django.urls.resolvers import RoutePattern, URLPattern, URLResolver
from django.utils.datastructures import MultiValueDict
from django.utils.translation import get_language

ADK = "devui-adk"
"""URL namespace of ADK's paths."""

V1 = "devui-v1"
"""URL namespace of DevUI's own API."""

APIS = "devui.apis.build"


class ApiUrls(URLResolver):
    """URLs of an API like `path(route, api.urls)`, built on first use.

    To reverse any route, Django collects the names of all. The names of an API are in their own namespace, so they are
    needed only to reverse one of them.
    """

    def __init__(self, route: str, namespace: str) -> None:
        """Mount the API of a namespace at a route."""
        super().__init__(RoutePattern(route), APIS, app_name="ninja", namespace=namespace)

    @cached_property
    def url_patterns(self) -> list[URLPattern | URLResolver]:
        """URL patterns of the API; builds the APIs."""
        patterns: list[URLPattern | URLResolver] = import_module(APIS).PATTERNS[self.namespace]
        return patterns

    def _populate(self) -> None:
        """Do nothing: Django calls this to collect the names of all routes, which would build the APIs."""

    @property
    def reverse_dict(self) -> MultiValueDict[str, Any]:
        """Route names of the API; builds the APIs."""
        if get_language() not in self._reverse_dict:
            super()._populate()
        return cast(MultiValueDict[str, Any], self._reverse_dict[get_language()])
