"""Admission of request bodies: a body is read only after the guards have checked the headers, and within limits.

Django reads a whole body before any middleware sees its request. Therefore the guards of the middleware check a request
with a body in advance, by its headers alone. If they refuse it, its body is dropped as it arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, cast

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix
from django.utils.module_loading import import_string

from devui import embed
from devui.web import error_responses
from devui.web.body_limits import (
    GRACE_S,
    MIN_RATE,
    PARSED_FACTOR,
    RETRY_S,
    TOO_MANY_BODIES,
    ByteQuota,
    LimitedBody,
    Receive,
)
from devui.web.error_responses import ErrorAnswer
from devui.web.login.guard import is_public
from devui.web.origins import AsgiScope

Send = Callable[[Mapping[str, Any]], Awaitable[None]]
GuardChain = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

DRAIN_S = 15.0
"""Seconds for which a refused client may go on sending: browsers read a response only after sending the whole body."""

MAX_ANONYMOUS = 64
"""Most requests with a body that are served at once without a login; likewise for refused ones."""

MAX_LOGIN_FORM = 128 * 1024
"""Most bytes of a login form."""


class BodyAdmitted(HttpResponse):
    """Placeholder response to a request whose body may be read."""


class BodyAdmission:
    """ASGI middleware around Django: the guards check a request before its body is read, and the body is limited.

    Attributes:
        max_form: most bytes of a form with files.
        max_text: most bytes of any other body.
        quota: bytes that all bodies together may hold.
        drain_s: seconds for which the rest of a refused body is read.
        grace_s, min_rate: see `LimitedBody`.
    """

    def __init__(
        self,
        django: ASGIHandler,
        *,
        max_form: int = 0,
        max_text: int = 0,
        max_total: int = 0,
        max_anonymous: int = MAX_ANONYMOUS,
        drain_s: float = DRAIN_S,
        grace_s: float = GRACE_S,
        min_rate: int = MIN_RATE,
    ) -> None:
        self.django = django
        self.max_form = max_form or settings.DEVUI_MAX_BODY
        self.max_text = max_text or settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        largest = max(self.max_form, self.max_text * PARSED_FACTOR)
        self.quota = ByteQuota(max(max_total or settings.DEVUI_MAX_BODIES, largest))
        self.drain_s = drain_s
        self.grace_s, self.min_rate = grace_s, min_rate
        self._visitors = ByteQuota(max_anonymous)
        self._refused = ByteQuota(max_anonymous)
        self._judge = _build_guard_chain([*settings.DEVUI_GUARDS, *embed.ANSWERS])

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if not _has_body(scope):
            await self.django(scope, receive, send)
            return
        set_script_prefix(get_script_prefix(scope))
        request, malformed = self.django.create_request(scope, BytesIO())
        if request is None:
            await self._send_refusal(cast(HttpResponse, malformed), receive, send)
        elif isinstance(answer := await self._judge(request), BodyAdmitted):
            await self._admit_and_read(request, scope, receive, send)
        else:
            await self._send_refusal(answer, receive, send)

    async def _admit_and_read(
        self, request: ASGIRequest, scope: AsgiScope, receive: Receive, send: Send
    ) -> None:
        body = self._limited_body(request, receive)

        async def send_and_release(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                body.hold_bytes_only()
            elif not message.get("more_body", False):  # released before the client sends its next request
                body.release()
            await send(message)

        try:
            if is_public(request) and not self._visitors.hold(body, 1):
                body.problem = TOO_MANY_BODIES
            else:
                await self.django(scope, body.receive, send_and_release)
        finally:
            body.release()
            self._visitors.release(body)
        if body.problem is not None:
            request.devui_problem = body.problem  # type: ignore[attr-defined]  # read by `_admission_view`
            refusal = await self._judge(request)
            await self._send_refusal(refusal, receive, send, is_read=body.is_complete)

    def _limited_body(self, request: ASGIRequest, receive: Receive) -> LimitedBody:
        length = request.META.get("CONTENT_LENGTH", "")
        announced = int(length) if length.isdecimal() else 0
        max_bytes, factor = self.max_text, PARSED_FACTOR
        if is_public(request):
            max_bytes, factor = MAX_LOGIN_FORM, 1
        elif request.content_type == "multipart/form-data" and not error_responses.is_api(request):
            max_bytes, factor = self.max_form, 1
        return LimitedBody(
            receive, self.quota, max_bytes, announced, factor, grace_s=self.grace_s, min_rate=self.min_rate
        )

    async def _send_refusal(
        self, answer: HttpResponseBase, receive: Receive, send: Send, *, is_read: bool = False
    ) -> None:
        """Send a response instead of reading the body, or the rest of it, and close the connection."""

        async def keep_open(message: Mapping[str, Any]) -> None:
            await send({**message, "more_body": True} if "body" in message else message)

        answer.headers["Connection"] = "close"
        if isinstance(answer, HttpResponse):
            answer.headers["Content-Length"] = str(len(answer.content))
        await self.django.send_response(answer, keep_open)
        try:
            if not is_read and self._refused.hold(answer, 1):
                await _drain_body(receive, self.drain_s)
        finally:
            self._refused.release(answer)
        await send({"type": "http.response.body"})


async def _drain_body(receive: Receive, seconds: float) -> None:
    """Drop the rest of a body until it ends, the client disconnects or the time is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (await receive()).get("more_body", False):
                pass


def _build_guard_chain(middleware: Sequence[str]) -> GuardChain:
    """Return a handler made of the middleware with `_admission_view` as its view, like Django's own handler."""
    judge = cast(Any, convert_exception_to_response)(_admission_view)
    for name in reversed(middleware):
        judge = convert_exception_to_response(import_string(name)(judge))
    return cast(GuardChain, judge)


async def _admission_view(request: HttpRequest) -> HttpResponse:
    problem: ErrorAnswer | None = getattr(request, "devui_problem", None)
    if problem is None:
        return BodyAdmitted()
    answer = error_responses.problem_response(request, problem)
    if problem is TOO_MANY_BODIES:
        answer.headers["Retry-After"] = str(RETRY_S)
    return answer


def _has_body(scope: AsgiScope) -> bool:
    headers = {name.lower(): value for name, value in scope.get("headers", [])}
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
