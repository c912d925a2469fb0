"""Where DevUI hangs: at the root of its own server, or under a path of a foreign Django project."""

from __future__ import annotations

from functools import lru_cache

from django.http import HttpRequest
from django.urls import get_script_prefix, get_urlconf, reverse

LOGIN_ROUTE = "devui-login"
"""Name of an address that no other project has, which tells where the rest is."""


def is_below_mount(request: HttpRequest) -> bool:
    """Tell whether a request is DevUI's business."""
    return request.path_info.startswith(_mount_path(get_urlconf(), get_script_prefix()))


def path_below_mount(request: HttpRequest) -> str:
    """Return a request's path without where DevUI hangs and without a leading slash."""
    return request.path_info.removeprefix(_mount_path(get_urlconf(), get_script_prefix()))


@lru_cache(maxsize=16)
def _mount_path(urlconf: str | None, script_prefix: str) -> str:
    """Return the path, as `path_info` has it: a proxy's prefix is no part of that."""
    root = reverse(LOGIN_ROUTE, urlconf).removesuffix("login/")
    return "/" + root.removeprefix(script_prefix)
