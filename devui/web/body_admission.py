"""Admission of request bodies: a body is read only after the guard has checked the headers, and within limits.

Django reads a whole body before any middleware sees its request. This handler leaves a body unread until the guard in
its middleware asks for it. If the guard refuses the request, the body is dropped as it arrives.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch

from devui.web import error_responses
from devui.web.body_limits import (
    GRACE_S,
    MIN_RATE,
    PARSED_FACTOR,
    TOO_MANY_BODIES,
    LimitedBody,
    Message,
    Receive,
    SharedQuota,
)
from devui.web.error_responses import ErrorAnswer
from sessions_app.routes import match_route

Send = Callable[[Mapping[str, Any]], Awaitable[None]]

PENDING = "devui.pending_body"
"""Key of the scope of requests with a body."""

DRAIN_S = 15.0
"""Seconds for which a refused client may go on sending: browsers read a response only after sending the whole body."""

PROMPT_S = 0.1
"""A request is checked again unless its body arrives within these seconds: a login may end while it is sent."""

MAX_ANONYMOUS = 64
"""Most requests with a body that are served at once without a login; likewise for refused ones."""

MAX_LOGIN_FORM = 128 * 1024
"""Most bytes of a login form."""


class BodyAdmission(ASGIHandler):
    """Django's handler, which leaves bodies unread until the guard admits them, and limits them.

    Attributes:
        max_form: most bytes of a form with files.
        max_text: most bytes of any other body.
        quota: bytes that all bodies together may hold.
        visitors, refused: requests with a body that are served without a login, and whose body is dropped.
        drain_s: seconds for which the rest of a refused body is read.
        grace_s, min_rate: see `LimitedBody`.
    """

    def __init__(
        self,
        *,
        max_form: int = 0,
        max_text: int = 0,
        max_total: int = 0,
        max_anonymous: int = MAX_ANONYMOUS,
        drain_s: float = DRAIN_S,
        grace_s: float = GRACE_S,
        min_rate: int = MIN_RATE,
    ) -> None:
        super().__init__()
        self.max_form = max_form or settings.DEVUI_MAX_BODY
        self.max_text = max_text or settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        largest = max(self.max_form, self.max_text * PARSED_FACTOR)
        self.quota = SharedQuota(max(max_total or settings.DEVUI_MAX_BODIES, largest))
        self.visitors = SharedQuota(max_anonymous)
        self.refused = SharedQuota(max_anonymous)
        self.drain_s = drain_s
        self.grace_s, self.min_rate = grace_s, min_rate

    async def handle(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Handle a request."""
        headers = {name.lower(): value for name, value in scope.get("headers", [])}
        length = headers.get(b"content-length", b"0")
        if length == b"0" and b"transfer-encoding" not in headers:
            await super().handle(scope, receive, send)
            return
        pending = PendingBody(self, int(length) if length.isdigit() else 0, receive, send)
        try:
            await super().handle({**scope, PENDING: pending}, pending.receive, pending.send)
        finally:
            pending.release()

    async def read_body(self, receive: Any) -> Any:
        """Return the file of a body. The guard fills it."""
        pending = getattr(receive, "__self__", None)
        return pending.file if isinstance(pending, PendingBody) else await super().read_body(receive)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response to a request. After one that does not read the body, the connection ends."""
        response = await super().run_get_response(request)
        pending = find_pending_body(request)
        if pending is not None and not pending.is_admitted:
            response.headers["Connection"] = "close"
            if isinstance(response, HttpResponse):
                response.headers["Content-Length"] = str(len(response.content))
        return response

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """Return what the address of a request resolves to, as the guard has found it."""
        match = match_route(request) or super().resolve_request(request)
        request.resolver_match = match
        return match


class PendingBody:
    """The body of a request, between the server and Django.

    Attributes:
        file: the file from which Django reads it.
        is_admitted: whether it has been read, within its limits.
        was_prompt: whether it arrived with the headers, so that nothing can have changed since the guard's check.
    """

    def __init__(self, admission: BodyAdmission, length: int, receive: Receive, send: Send) -> None:
        self.file = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - Django closes it
            max_size=settings.FILE_UPLOAD_MAX_MEMORY_SIZE, mode="w+b"
        )
        self.is_admitted = self.was_prompt = False
        self._admission, self._receive, self._send = admission, receive, send
        self._body = LimitedBody(receive, admission.quota, admission.max_text, length, PARSED_FACTOR)
        self._body.grace_s, self._body.min_rate = admission.grace_s, admission.min_rate
        self._is_over = asyncio.Event()

    async def read(self, request: HttpRequest, *, is_public: bool) -> ErrorAnswer | None:
        """Read the body of a request that the guard lets pass; return the limit that it exceeds.

        If the client leaves before its end, Django cancels the request.
        """
        body, admission = self._body, self._admission
        if is_public:
            body.max_bytes, body.factor = MAX_LOGIN_FORM, 1
        elif request.content_type == "multipart/form-data" and not error_responses.is_api(request):
            body.max_bytes, body.factor = admission.max_form, 1
        if is_public and not admission.visitors.hold(self, 1):
            return TOO_MANY_BODIES
        began = time.monotonic()
        try:
            await body.read_into(self.file)
        except RequestAborted:
            self._is_over.set()
            await asyncio.Future()  # until Django cancels it
        if body.problem is None:
            self.is_admitted = True
            self.was_prompt = body.chunks <= 1 and time.monotonic() - began < PROMPT_S
            self._is_over.set()
        return body.problem

    async def receive(self) -> Message:
        """Return the server's next message after the body: that the client has left."""
        await self._is_over.wait()
        return await self._receive() if self.is_admitted else {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        """Pass a message of the response on. The end of a refusal waits for the rest of the body."""
        is_end = message["type"] == "http.response.body" and not message.get("more_body", False)
        if message["type"] == "http.response.start" and self.is_admitted:
            self._body.hold_bytes_only()
        elif is_end or not self.is_admitted:  # released before the client sends its next request
            self.release()
        if is_end and not self.is_admitted:
            await self._send({**message, "more_body": True})
            await self._drain_body()
            message = {"type": "http.response.body"}
        await self._send(message)

    def release(self) -> None:
        """Release all quotas."""
        self._admission.visitors.release(self)
        self._body.release()

    async def _drain_body(self) -> None:
        """Drop the rest of the body until it ends, the client disconnects or the time is over."""
        try:
            if not self._body.is_complete and self._admission.refused.hold(self, 1):
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._admission.drain_s):
                        while (await self._receive()).get("more_body", False):
                            pass
        finally:
            self._admission.refused.release(self)


def find_pending_body(request: HttpRequest) -> PendingBody | None:
    """Return the body of a request that comes through `BodyAdmission`; None if it has none."""
    pending: PendingBody | None = getattr(request, "scope", {}).get(PENDING)
    return pending
