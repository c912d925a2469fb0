"""Helpers for views: the request type, partial pages, redirects, JSON responses and downloads."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, cast

from django import http
from django.shortcuts import render
from django.utils.http import content_disposition_header, url_has_allowed_host_and_scheme
from django_htmx.middleware import HtmxDetails

from sessions_app.store.errors import DevUIError

__all__ = [
    "EVENT_STREAM",
    "Access",
    "HttpRequest",
    "download",
    "download_page",
    "error_frame",
    "json_text",
    "local_address",
    "note_object",
    "partial_target",
    "person_name",
    "redirect_to",
    "render_partial",
    "request_access",
    "set_access",
    "wants_partial",
]

CHUNK = 256 * 1024
"""Bytes of a file that are sent at a time."""


EVENT_STREAM = "text/event-stream"
FRAME_END = b"\n\n"


@dataclass(slots=True)
class Access:
    """The sender of a request and, for the audit log, its objects. The guard of the login sets it.

    Attributes:
        is_authenticated: whether its sender has logged in; false where no login is set up.
        person_name: name of its sender; empty without users.
        has_account: whether its sender is a user.
        is_stranger: whether a login is set up and its sender has none.
        objects, app: ids of its objects, and their app, for the audit log if its address does not name them.
    """

    is_authenticated: bool = False
    person_name: str = ""
    has_account: bool = False
    objects: str = ""
    app: str = ""
    is_stranger: bool = False

    def role_in(self, app: str) -> str:
        """Return the name of the role of the sender in an app; empty without users."""
        return ""

    async def is_permitted(self, request: http.HttpRequest) -> bool:
        """Tell whether the sender may still send the request, for responses that take long."""
        return True


class HttpRequest(http.HttpRequest):
    """A request that passed `HtmxMiddleware` and the guard of the login."""

    htmx: HtmxDetails
    devui_access: Access


def request_access(request: http.HttpRequest) -> Access:
    """Return the access of a request; projects that mount DevUI have a login of their own instead."""
    access: Access | None = getattr(request, "devui_access", None)
    return access or Access()


def set_access(request: http.HttpRequest, access: Access) -> None:
    """Set the access of a request."""
    cast(HttpRequest, request).devui_access = access


def person_name(request: http.HttpRequest) -> str:
    """Return the name of the person who sends a request; empty without users."""
    return request_access(request).person_name


def note_object(request: http.HttpRequest, *ids: object, app: str = "") -> None:
    """Set the object of a request for the audit log if its address does not name it; `app`: if that does not either."""
    access = request_access(request)
    access.objects = "/".join(map(str, ids))
    access.app = app or access.app


def partial_target(request: http.HttpRequest) -> str:
    """Return the id of the element whose content htmx requests; empty: a whole page is requested.

    Boosted links and uncached history entries need whole pages.
    """
    htmx: HtmxDetails | None = getattr(request, "htmx", None)
    if not htmx or htmx.boosted or htmx.history_restore_request:
        return ""
    return htmx.target or ""


def wants_partial(request: http.HttpRequest, target: str) -> bool:
    """Tell whether htmx requests the content of the element with the id `target` instead of a page."""
    return partial_target(request) == target


def render_partial(
    request: http.HttpRequest,
    template: str,
    context: Mapping[str, Any] | None = None,
    *,
    partial: str,
    target: str = "",
    status: int = 200,
) -> http.HttpResponse:
    """Render a page, or only its `{% partialdef %}` named `partial` if that is htmx's target.

    Args:
        partial: name of the partial in the template.
        target: id of the element the partial fills; default: the partial's name.
    """
    part = f"#{partial}" if wants_partial(request, target or partial) else ""
    return render(request, template + part, context, status=status)


def redirect_to(request: http.HttpRequest, address: str) -> http.HttpResponse:
    """Return a redirect to an address of DevUI, for a form or for htmx."""
    if not getattr(request, "htmx", False):
        return http.HttpResponseRedirect(address)
    return http.HttpResponse(status=204, headers={"HX-Redirect": address})


def local_address(address: object, fallback: str) -> str:
    """Return an address if it is on this server, else `fallback`."""
    if address and url_has_allowed_host_and_scheme(str(address), allowed_hosts=None):
        return str(address)
    return fallback


def json_text(text: str | bytes, status: int = 200) -> http.HttpResponse:
    """Return a response with JSON text."""
    return http.HttpResponse(text, status=status, content_type="application/json")


def error_frame(error: DevUIError) -> bytes:
    """Return the frame with which an event stream ends after an error, as ADK's server sends errors of agents."""
    name = type(error).__name__
    details = {"error_type": name, "error_message": error.message, "timestamp": time.time()}
    frame = {
        "error": f"{name}: {error.message}",
        "error_details": details,
        "code": error.code,
        "hint": error.hint,
    }
    return FRAME_END + b"data: " + json.dumps(frame).encode() + FRAME_END


def download(file: IO[bytes], name: str, content_type: str) -> http.StreamingHttpResponse:
    """Return a response that downloads a file under this name. It closes the file at the end."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return http.StreamingHttpResponse(_read_chunks(file), content_type=content_type, headers=headers)


def download_page(page: str, name: str) -> http.HttpResponse:
    """Return a response that downloads an HTML page under this name."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.html"'}
    return http.HttpResponse(page, content_type="text/html; charset=utf-8", headers=headers)


def download_text(text: str, file_name: str, content_type: str) -> http.HttpResponse:
    """Return a response that downloads a text as a file."""
    disposition = content_disposition_header(True, file_name) or "attachment"
    return http.HttpResponse(text, content_type=content_type, headers={"Content-Disposition": disposition})


async def _read_chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield a file in chunks; Django would load a synchronous iterator completely."""
    with file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk
