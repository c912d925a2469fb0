"""The path of DevUI: the root of its own server, or a path of a Django project that mounts it."""

from __future__ import annotations

from functools import lru_cache

from django.http import HttpRequest
from django.urls import get_script_prefix, get_urlconf, reverse

GO_ROUTE = "devui-go"
"""Name of a route that no other project has; its address shows the mount path."""


def is_below_mount(request: HttpRequest) -> bool:
    """Tell whether the address of a request belongs to DevUI."""
    return request.path_info.startswith(_mount_path(get_urlconf(), get_script_prefix()))


def path_below_mount(request: HttpRequest) -> str:
    """Return a request's path without the mount path and the leading slash."""
    return request.path_info.removeprefix(_mount_path(get_urlconf(), get_script_prefix()))


@lru_cache(maxsize=16)
def _mount_path(urlconf: str | None, script_prefix: str) -> str:
    """Return the mount path as in `path_info`, without a proxy's prefix."""
    root = reverse(GO_ROUTE, urlconf).removesuffix("go/")
    return "/" + root.removeprefix(script_prefix)
