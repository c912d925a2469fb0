"""Middleware of DevUI's own addresses; what a foreign project serves beside them is left alone.

All of it answers in the event loop, so that a client that goes away cancels its view and with it the agent's
run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import MissingFileError

from devui.web import error_responses, origins
from devui.web.mount_path import is_below_mount
from sessions_app import request_bodies
from sessions_app.errors import BadInput

GetResponse = Callable[[HttpRequest], Any]
FileStamp = tuple[int, int]
LARGE_BYTES = 128 * 1024
"""Size from which a body is parsed in a thread: it takes the event loop some milliseconds."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
)
"""`'self'` covers our own sockets too. Nothing inline, nothing evaluated, nothing from outside."""

SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Middleware:
    """Base: `before` may answer in place of the view, `after` may change the answer. Neither may block."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Answer a request, or return the coroutine that does."""
        if not is_below_mount(request):
            return cast(HttpResponseBase, self.get_response(request))
        if self.is_async:
            return self._answer(request)
        response = self.before(request) or self.get_response(request)
        return self.after(request, response)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        response = self.before(request) or await self.get_response(request)
        return self.after(request, response)

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return an answer that stands in for the view, or None."""
        return None

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Return the answer to send."""
        return response


class ContentSecurity(Middleware):
    """Sends the content security policy and its companions with every answer that has none of its own."""

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Add the headers."""
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response


class KnownHost(Middleware):
    """Refuses requests that name another host: a name that was rebound to this machine (DNS rebinding)."""

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Refuse a Host that ALLOWED_HOSTS does not name, as ADK's server does."""
        try:
            request.get_host()
        except DisallowedHost:
            hint = "Open DevUI by a name that DEVUI_ALLOWED_HOSTS lists, or add this one to it."
            return _forbid(request, "host not allowed", "host_not_allowed", hint)
        return None


class SameOriginWrites(Middleware):
    """Refuses what other sites' pages send, and answers the origins of DEVUI_ALLOW_ORIGINS by CORS.

    Forms carry no token of Django's, so the browser's own words decide: a foreign Origin is refused whatever the
    method, as ADK's server does, and so is an unsafe method that `Sec-Fetch-Site` calls cross-site. Programs
    send neither header.
    """

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Refuse a foreign page, or answer its preflight."""
        origin = request.headers.get("Origin")
        if origin is not None and origins.is_foreign(origin, request.scheme or "http", request.get_host()):
            hint = (
                "Add the origin to DEVUI_ALLOW_ORIGINS if its pages may use DevUI. If it is the address of DevUI itself"
                " behind a proxy, name the proxy in DEVUI_TRUSTED_PROXIES."
            )
            return _forbid(request, "origin not allowed", "origin_not_allowed", hint)
        if _is_preflight(request):
            return HttpResponse(status=200)
        if request.method not in SAFE_METHODS and self._is_cross_site(request, origin):
            hint = "Pages of other sites cannot write to DevUI; open it in a tab of its own."
            return _forbid(request, "cross-site request not allowed", "cross_site", hint)
        # Answered for: a foreign project's CsrfViewMiddleware would ask for a token that our forms do not carry.
        request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]  # how Django itself exempts
        return None

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Let an allowed foreign page read the answer."""
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
    """WhiteNoise in the event loop: a request that names no file costs no thread and stays cancellable.

    WhiteNoise keeps the size of a file from the start of the server on, so a file that is edited while the server runs
    would arrive cut. Here its size and its time are looked at anew for every answer.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self._known: dict[str, tuple[str, FileStamp]] = {}
        super().__init__(get_response)
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """Serve the file, or pass the request on."""
        if not self.is_async:
            return self._file_response(request) or self.get_response(request)
        if request.path_info not in self.files and not request.path_info.startswith(self.static_prefix):
            return self.get_response(request)
        return self._answer(request)

    def add_file_to_dictionary(self, url: str, path: str, stat_cache: Any = None) -> None:
        """Take note of a file and of how it is now."""
        super().add_file_to_dictionary(url, path, stat_cache=stat_cache)
        if url in self.files:
            self._known[url] = path, _file_stamp(path)

    def add_cache_headers(self, headers: Any, path: str, url: str) -> None:
        """Add an ETag that tells edits apart which keep the size and come within a second."""
        super().add_cache_headers(headers, path, url)
        headers["ETag"] = '"{:x}-{:x}"'.format(*_file_stamp(path))

    async def _answer(self, request: HttpRequest) -> Any:
        response = await asyncio.to_thread(self._file_response, request)
        return await self.get_response(request) if response is None else response

    def _file_response(self, request: HttpRequest) -> HttpResponse | None:
        try:
            static_file = self._file(request.path_info)
            return (
                None if static_file is None else _buffer_response(self.serve(static_file, request), request)
            )
        except (FileNotFoundError, MissingFileError):
            return None

    def _file(self, url: str) -> Any:
        """Return the file of an address as it is now, None when there is none.

        Raises:
            FileNotFoundError, MissingFileError: there was one.
        """
        if url not in self._known:
            return self.find_file(url) if url.startswith(self.static_prefix) else None
        path, stamp = self._known[url]
        if _file_stamp(path) != stamp:
            self.add_file_to_dictionary(url, path)
        return self.files[url]


class VaryOnHtmx(Middleware):
    """Keeps caches from taking a fragment for the page of the same address."""

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Name the headers that choose between page and fragment."""
        if response.headers.get("Content-Type", "").startswith("text/html"):
            patch_vary_headers(response, ["HX-Request", "HX-Target"])
        return response


class Errors(Middleware):
    """Answers errors in the one shape they have: of views, of addresses nobody knows, of methods not allowed."""

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Refuse an address with a NUL: it names nothing a store holds, and PostgreSQL fails to look for it."""
        if "\x00" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
            error = BadInput("The address holds a NUL character.", hint="Remove `%00` from it.")
            return error_responses.error_response(request, error)
        return None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer what a view raised."""
        return error_responses.error_response(request, exception) if is_below_mount(request) else None

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Answer what reached no view, and what a view refuses by its method."""
        if isinstance(response, HttpResponseNotAllowed):
            methods = response.headers["Allow"]
            refusal = error_responses.problem_response(request, error_responses.method_not_allowed(methods))
            refusal.headers["Allow"] = methods
            return refusal
        if response.status_code == 404 and request.resolver_match is None:
            return error_responses.problem_response(request, error_responses.NOT_FOUND)
        return response


class LargeBodies(Middleware):
    """Parses large bodies in a thread before the view asks for them: the event loop answers others meanwhile."""

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        if _is_large(request):
            await (
                request_bodies.parse_in_thread
                if error_responses.is_api(request)
                else request_bodies.read_form_in_thread
            )(request)
        return await super()._answer(request)


def _forbid(request: HttpRequest, reason: str, code: str, hint: str) -> HttpResponse:
    """Answer 403 in ADK's words. Text, not a page: a page would be built for the very host that is refused."""
    return error_responses.bare_response(
        request, error_responses.Problem(403, f"Forbidden: {reason}", code, hint)
    )


def _is_preflight(request: HttpRequest) -> bool:
    return request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers


def _is_large(request: HttpRequest) -> bool:
    """Tell whether a body is large; one whose length was not announced may be."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    return "Transfer-Encoding" in request.headers or (length.isdecimal() and int(length) > LARGE_BYTES)


def _file_stamp(path: str) -> FileStamp:
    """Return what changes when a file does: its time in nanoseconds and its size."""
    stat = os.stat(path)
    return stat.st_mtime_ns, stat.st_size


def _buffer_response(response: Any, request: HttpRequest) -> HttpResponse:
    """Read a file's answer into memory: ASGI cannot send Django's synchronous file iterators as they are."""
    buffered = HttpResponse(response.getvalue(), status=response.status_code)
    buffered.headers = response.headers
    if request.method == "GET" and buffered.content:
        buffered.headers["Content-Length"] = str(len(buffered.content))
    response.close()
    return buffered
