"""Middleware for DevUI's own addresses; other addresses of a project that mounts DevUI are not affected.

All middleware runs in the event loop, so that a client that disconnects cancels its view and with it the agent's run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from whitenoise.middleware import WhiteNoiseMiddleware

from devui.web import error_responses, origins
from devui.web.mount_path import is_below_mount
from sessions_app.api import request_bodies
from sessions_app.routes import SAFE_METHODS
from sessions_app.store.errors import BadInput

GetResponse = Callable[[HttpRequest], Any]
LARGE_BYTES = 128 * 1024
"""Size from which a body is parsed in a thread, because parsing would block the event loop for milliseconds."""

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
)
"""`'self'` includes DevUI's own sockets. No inline code, no evaluated code, nothing from other hosts."""

SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Middleware:
    """Base class: `before` may return a response instead of the view, `after` may change it. Neither may block."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Handle a request, or return the coroutine that does."""
        if not is_below_mount(request):
            return cast(HttpResponseBase, self.get_response(request))
        if self.is_async:
            return self._answer_request(request)
        response = self.before(request) or self.get_response(request)
        return self.after(request, response)

    async def _answer_request(self, request: HttpRequest) -> HttpResponseBase:
        response = self.before(request) or await self.get_response(request)
        return self.after(request, response)

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return a response that replaces the view's, or None."""
        return None

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Return the response to send."""
        return response


class ContentSecurity(Middleware):
    """Adds the content security policy and related headers to responses that do not set them."""

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Add the headers."""
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response


class KnownHost(Middleware):
    """Refuses requests with an unknown Host header, as after DNS rebinding."""

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Refuse a Host that is not in ALLOWED_HOSTS, as ADK's server does."""
        try:
            request.get_host()
        except DisallowedHost:
            hint = "Open DevUI by a name that DEVUI_ALLOWED_HOSTS lists, or add this one to it."
            return _forbid_request(request, "host not allowed", "host_not_allowed", hint)
        return None


class SameOriginWrites(Middleware):
    """Refuses requests of other sites' pages, and answers the origins of DEVUI_ALLOW_ORIGINS with CORS headers.

    Forms carry no CSRF token; the browser's headers decide. A foreign Origin is refused for every method, as by ADK's
    server; so is an unsafe method with a cross-site `Sec-Fetch-Site`. Programs send neither header.
    """

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Refuse a foreign page, or answer a preflight request."""
        origin = request.headers.get("Origin")
        if origin is not None and origins.is_foreign(origin, request.scheme or "http", request.get_host()):
            hint = (
                "Add the origin to DEVUI_ALLOW_ORIGINS if its pages may use DevUI. If it is the address of DevUI itself"
                " behind a proxy, name the proxy in DEVUI_TRUSTED_PROXIES."
            )
            return _forbid_request(request, "origin not allowed", "origin_not_allowed", hint)
        if _is_preflight(request):
            return HttpResponse(status=200)
        if request.method not in SAFE_METHODS and self._is_cross_site(request, origin):
            hint = "Pages of other sites cannot write to DevUI; open it in a tab of its own."
            return _forbid_request(request, "cross-site request not allowed", "cross_site", hint)
        # A project's CsrfViewMiddleware would require a token, which DevUI's forms do not carry.
        request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]  # how Django itself exempts
        return None

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Add CORS headers for an allowed foreign page."""
        origin = request.headers.get("Origin")
        if origin is None or not origins.allowed_origins().covers(origin):
            return response
        response["Access-Control-Allow-Origin"] = origin
        response["Access-Control-Allow-Credentials"] = "true"
        patch_vary_headers(response, ["Origin"])
        if _is_preflight(request):
            response["Access-Control-Allow-Methods"] = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
            requested_headers = request.headers.get("Access-Control-Request-Headers", "")
            response["Access-Control-Allow-Headers"] = requested_headers
            response["Access-Control-Max-Age"] = "600"
        return response

    @staticmethod
    def _is_cross_site(request: HttpRequest, origin: str | None) -> bool:
        if origin is not None and origins.allowed_origins().covers(origin):
            return False
        return request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # WhiteNoise has no types
    """WhiteNoise in the event loop: requests for other addresses need no thread and stay cancellable.

    WHITENOISE_AUTOREFRESH makes it look for files at every request. Otherwise it would read their sizes only at the
    start, and truncate a file that grows while the server runs.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        super().__init__(get_response)
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """Serve the file, or pass the request on."""
        if not request.path_info.startswith(self.static_prefix):
            return self.get_response(request)
        if self.is_async:
            return self._answer_request(request)
        return self._file_response(request) or self.get_response(request)

    def add_cache_headers(self, headers: Any, path: str, url: str) -> None:
        """Add an ETag that also distinguishes edits within a second that keep the size."""
        super().add_cache_headers(headers, path, url)
        stat = os.stat(path)
        headers["ETag"] = f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'

    async def _answer_request(self, request: HttpRequest) -> Any:
        response = await asyncio.to_thread(self._file_response, request)
        return await self.get_response(request) if response is None else response

    def _file_response(self, request: HttpRequest) -> HttpResponse | None:
        with suppress(FileNotFoundError):  # deleted since it was found
            if static_file := self.find_file(request.path_info):
                return _buffer_response(self.serve(static_file, request), request)
        return None


class VaryOnHtmx(Middleware):
    """Keeps caches from returning a fragment for the page of the same address."""

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Add the headers that select page or fragment to Vary."""
        if response.headers.get("Content-Type", "").startswith("text/html"):
            patch_vary_headers(response, ["HX-Request", "HX-Target"])
        return response


class Errors(Middleware):
    """Answers errors in their common shape: of views, of unknown addresses, of methods that are not allowed."""

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Refuse an address with a NUL: no stored id contains one, and PostgreSQL fails to query it."""
        if "\x00" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
            error = BadInput("The address holds a NUL character.", hint="Remove `%00` from it.")
            return error_responses.error_response(request, error)
        return None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer an exception of a view."""
        return error_responses.error_response(request, exception) if is_below_mount(request) else None

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Answer requests without a route, and methods that a view refuses."""
        if isinstance(response, HttpResponseNotAllowed):
            methods = response.headers["Allow"]
            refusal = error_responses.problem_response(request, error_responses.method_not_allowed(methods))
            refusal.headers["Allow"] = methods
            return refusal
        if response.status_code == 404 and request.resolver_match is None:
            return error_responses.problem_response(request, error_responses.NOT_FOUND)
        return response


class LargeBodies(Middleware):
    """Parses large bodies in a thread before the view needs them, so that the event loop stays free."""

    async def _answer_request(self, request: HttpRequest) -> HttpResponseBase:
        if _is_large(request):
            await (
                request_bodies.parse_in_thread
                if error_responses.is_api(request)
                else request_bodies.read_form_in_thread
            )(request)
        return await super()._answer_request(request)


def _forbid_request(request: HttpRequest, reason: str, code: str, hint: str) -> HttpResponse:
    """Return a 403 in ADK's words, as text: a page would contain links to the refused host."""
    return error_responses.bare_response(
        request, error_responses.ErrorAnswer(403, f"Forbidden: {reason}", code, hint)
    )


def _is_preflight(request: HttpRequest) -> bool:
    return request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers


def _is_large(request: HttpRequest) -> bool:
    """Tell whether a body is large, or of unknown length."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    return "Transfer-Encoding" in request.headers or (length.isdecimal() and int(length) > LARGE_BYTES)


def _buffer_response(response: Any, request: HttpRequest) -> HttpResponse:
    """Read a file response into memory: ASGI cannot send Django's synchronous file iterators."""
    buffered = HttpResponse(response.getvalue(), status=response.status_code)
    buffered.headers = response.headers
    if request.method == "GET" and buffered.content:
        buffered.headers["Content-Length"] = str(len(buffered.content))
    response.close()
    return buffered
