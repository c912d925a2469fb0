"""Errors as HTTP responses.

Every error has the shape `{"detail", "code", "hint"}`: as JSON on the API, as a page or a fragment elsewhere. On ADK's
paths `detail` and status are ADK's. No response contains a traceback; unexpected errors are logged.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme

from devui.web.mount_path import path_below_mount
from sessions_app.store.database import db_errors
from sessions_app.store.errors import DevUIError

log = logging.getLogger(__name__)

API_ROOTS = frozenset(
    {
        "agent-identity",
        "api",
        "app-info",
        "apps",
        "config",
        "dev",
        "health",
        "list-apps",
        "mcp",
        "metrics",
        "ready",
        "run",
        "run_live",
        "run_sse",
        "trigger",
        "users",
        "v1",
        "version",
    }
)
"""First path segments of ADK's REST API, of DevUI's, of MCP, OTLP and of monitoring: their callers are programs."""

UNSENT_FIELDS = frozenset({"status", "back", "retry_after"})
"""Fields of a problem that its body does not have."""

PAGE_TEMPLATE = "devui/error.html"


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error to send. `detail` is text, or a list of validation errors; a page links to `back`.

    `retry_after`: seconds after which the request may succeed; 0: unknown.
    """

    status: int
    detail: Any
    code: str
    hint: str = ""
    back: str = ""
    retry_after: int = 0

    @property
    def title(self) -> str:
        """The reason phrase of the status, for people; programs read the code."""
        return HTTPStatus(self.status).phrase

    def body(self) -> dict[str, Any]:
        """Return the JSON of the error."""
        return {name: value for name, value in asdict(self).items() if name not in UNSENT_FIELDS}

    def headers(self) -> dict[str, str]:
        """Return the headers of the response."""
        return {"Retry-After": str(self.retry_after)} if self.retry_after else {}


NOT_FOUND = ErrorAnswer(
    404, "Not Found", "not_found", "No page has this address: check it for a typing error."
)
FAILED = ErrorAnswer(
    500,
    "Internal Server Error",
    "internal_error",
    "DevUI itself failed. Please report the traceback from the server's log.",
)


def find_problem(error: BaseException) -> ErrorAnswer:
    """Return the problem that describes an error."""
    if isinstance(error, DevUIError):
        detail = getattr(error, "errors", None) or error.message
        return ErrorAnswer(error.status, detail, error.code, error.hint, error.back, error.retry_after)
    if fault := db_errors.translate(error):
        return find_problem(fault)
    if isinstance(error, Http404):
        return NOT_FOUND
    if isinstance(error, PermissionDenied):
        return ErrorAnswer(403, str(error) or "Forbidden", "forbidden")
    if isinstance(error, RequestDataTooBig):
        return body_too_large()
    if isinstance(error, SuspiciousOperation | BadRequest | MultiPartParserError):
        return ErrorAnswer(400, "Bad Request", "bad_request", "The request is malformed.")
    return FAILED


def body_too_large() -> ErrorAnswer:
    """Return the problem of a request body above the limit."""
    return ErrorAnswer(
        413,
        "Request body too large",
        "too_large",
        "Send less, or raise the limit: DEVUI_MAX_JSON_MB for JSON and text, DEVUI_MAX_BODY_MB for forms with files.",
    )


def method_not_allowed(methods: str) -> ErrorAnswer:
    """Return the problem of a method that is not among the allowed `methods`."""
    return ErrorAnswer(405, "Method Not Allowed", "method_not_allowed", f"This address accepts {methods}.")


def error_response(request: HttpRequest, error: BaseException) -> HttpResponse:
    """Return the response to an error, and log it if it is unexpected."""
    problem = find_problem(error)
    if problem is FAILED:
        log.error("%s %s failed", request.method, request.path, exc_info=error)
    return problem_response(request, problem)


def problem_response(request: HttpRequest, problem: ErrorAnswer) -> HttpResponse:
    """Return a problem in the form that its caller reads: JSON, a fragment for htmx, or a page."""
    if is_api(request):
        return JsonResponse(problem.body(), status=problem.status, headers=problem.headers())
    part = "#problem" if getattr(request, "htmx", False) else ""
    page_problem = replace(problem, back=problem.back or _form_page(request))
    response = render(request, PAGE_TEMPLATE + part, {"problem": page_problem}, status=problem.status)
    for name, value in problem.headers().items():
        response.headers[name] = value
    return response


def _form_page(request: HttpRequest) -> str:
    """Return the page whose form was sent; empty for GET and HEAD, or if the browser sends no referrer."""
    if request.method in {"GET", "HEAD"}:
        return ""
    with suppress(ValueError):
        parts = urlsplit(request.headers.get("Referer", ""))
        path = urlunsplit(("", "", parts.path, parts.query, ""))
        if parts.netloc == request.headers.get("Host") and url_has_allowed_host_and_scheme(path, None):
            return path
    return ""


def bare_response(request: HttpRequest, problem: ErrorAnswer) -> HttpResponse:
    """Return a problem as JSON or text, for callers who may see no page, not even its frame."""
    if is_api(request) or request.headers.get("HX-Request"):
        return JsonResponse(problem.body(), status=problem.status, headers=problem.headers())
    text = f"{problem.detail}\n{problem.hint}\n"
    return HttpResponse(
        text,
        status=problem.status,
        headers=problem.headers(),
        content_type="text/plain; charset=utf-8",
    )


def is_api(request: HttpRequest) -> bool:
    """Tell whether the caller is a program: by the address, or because it does not accept HTML."""
    return path_below_mount(request).split("/", 1)[0] in API_ROOTS or not request.accepts("text/html")


def handler500(request: HttpRequest) -> HttpResponse:
    """Answer an error outside of views; Django has logged it."""
    return problem_response(request, FAILED)


def answer_refusal(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that was refused outside of views (400, 403)."""
    return problem_response(request, find_problem(exception))


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an address without a route."""
    return problem_response(request, NOT_FOUND)
