"""What views of every room share: the request as our middleware leaves it, pages that answer in part, JSON
text, files to be saved.

A leaf: it imports nothing of DevUI.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import IO, Any

from django import http
from django.shortcuts import render
from django_htmx.middleware import HtmxDetails

__all__ = ["HttpRequest", "download", "json_text", "redirect_to", "render_partial", "wants_partial"]

CHUNK = 256 * 1024
"""Bytes of a file that are sent at a time."""


class HttpRequest(http.HttpRequest):
    """A request that passed `HtmxMiddleware`."""

    htmx: HtmxDetails


def wants_partial(request: http.HttpRequest, target: str) -> bool:
    """Tell whether htmx asks for the content of the element with the id `target` and not for a page.

    Boosted links and a history entry that is no longer in the cache need whole pages.
    """
    htmx: HtmxDetails | None = getattr(request, "htmx", None)
    if not htmx or htmx.boosted or htmx.history_restore_request:
        return False
    return htmx.target == target


def render_partial(
    request: http.HttpRequest,
    template: str,
    context: Mapping[str, Any] | None = None,
    *,
    partial: str,
    target: str = "",
    status: int = 200,
) -> http.HttpResponse:
    """Render a page, or only its `{% partialdef %}` named `partial` when htmx's target is that part.

    Args:
        partial: name of the partial in the template.
        target: id of the element the partial fills; default: the partial's name.
    """
    part = f"#{partial}" if wants_partial(request, target or partial) else ""
    return render(request, template + part, context, status=status)


def redirect_to(request: http.HttpRequest, address: str) -> http.HttpResponse:
    """Return a response by which the browser goes to an address of ours, whether a form or htmx has asked."""
    if not getattr(request, "htmx", False):
        return http.HttpResponseRedirect(address)
    return http.HttpResponse(status=204, headers={"HX-Redirect": address})


def json_text(text: str | bytes, status: int = 200) -> http.HttpResponse:
    """Return a response of JSON that is text already."""
    return http.HttpResponse(text, status=status, content_type="application/json")


def download(file: IO[bytes], name: str, content_type: str) -> http.StreamingHttpResponse:
    """Return a response that is saved as a file of this name. It closes the file when all is sent."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return http.StreamingHttpResponse(_chunks(file), content_type=content_type, headers=headers)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield a file piece by piece: of one that is not asynchronous Django would first hold all."""
    with file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk
