"""The end of requests whose login, token or role ends while they wait for their response or stream it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from devui.web import error_responses
from devui.web.login import sockets
from sessions_app.http import EVENT_STREAM, error_frame, request_access
from sessions_app.store.errors import Forbidden


async def answer_while_permitted(
    request: HttpRequest, get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]
) -> HttpResponseBase:
    """Return the response to a request, or a refusal as soon as its sender may no longer send it.

    A stream ends then, too: an event stream with an error as ADK sends it, any other stream without its end.
    """
    watch = _PermissionWatch(request)
    try:
        with watch.cancelling():
            response = await get_response(request)
    except Forbidden as error:
        return error_responses.error_response(request, error)
    finally:
        watch.close()
    if isinstance(response, StreamingHttpResponse) and response.is_async:
        parts = cast(AsyncIterator[bytes], response.streaming_content)
        is_event_stream = response.headers["Content-Type"].startswith(EVENT_STREAM)
        response.streaming_content = _stream_while_permitted(request, parts, is_event_stream)
    return response


async def _stream_while_permitted(
    request: HttpRequest, parts: AsyncIterator[bytes], is_event_stream: bool
) -> AsyncIterator[bytes]:
    watch = _PermissionWatch(request)
    try:
        while True:
            with watch.cancelling():
                part = await anext(parts, None)
            if part is None:
                break
            yield part
    except Forbidden as error:
        if not is_event_stream:
            raise
        yield error_frame(error)
    finally:
        watch.close()


def _login_ended_error() -> Forbidden:
    return Forbidden(
        "The login, token or role of this request has ended, and the request with it.",
        hint="Sign in, or use another token, and send it again.",
    )


class _PermissionWatch:
    """Checks at intervals whether the sender of a request may still send it. Short requests need no task."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._revoked = asyncio.Event()
        self._waiting: asyncio.Task[Any] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(sockets.RECHECK_S, self._start_checks)

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """Cancel the block when a check fails.

        Raises:
            Forbidden: a check has failed.
        """
        if self._revoked.is_set():
            raise _login_ended_error()
        self._waiting = waiting = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if not self._revoked.is_set() or (waiting and waiting.uncancel()):
                raise  # the client has left
            raise _login_ended_error() from None
        finally:
            self._waiting = None

    def close(self) -> None:
        """End the checks."""
        self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()

    def _start_checks(self) -> None:
        self._checking = asyncio.create_task(self._check_until_revoked(), name="devui-permission-of-request")

    async def _check_until_revoked(self) -> None:
        while await request_access(self._request).is_permitted(self._request):  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(sockets.RECHECK_S)
        self._revoked.set()
        if self._waiting is not None:
            self._waiting.cancel()
