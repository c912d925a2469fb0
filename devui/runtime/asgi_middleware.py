"""ASGI middleware of a runtime: access control, the status of refused streams, and a filter for ADK's live socket."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from hmac import compare_digest
from typing import Any

from google.adk.agents.live_request_queue import LiveRequest
from pydantic import ValidationError
from starlette.datastructures import Headers

from devui.runtime.config import TOKEN_HEADER
from sessions_app.runs.runtime_client import NOBODY, Sender, close_reason
from sessions_app.store.errors import DevUIError
from sessions_app.store.text_input import TooManyValues, check_value_count

LIVE_PATH = "/run_live"
STREAM_PATH = "/run_sse"
NORMAL_CLOSURE = 1000

sender: ContextVar[Sender] = ContextVar("sender", default=NOBODY)
"""The sender of the current request."""

log = logging.getLogger(__name__)

Scope = dict[str, Any]
AsgiApp = Callable[[Scope, Any, Any], Awaitable[None]]


async def _close_nothing(reason: str, code: int) -> None:
    """Do nothing: the task serves no socket."""


hang_up: ContextVar[Callable[[str, int], Awaitable[None]]] = ContextVar("hang_up", default=_close_nothing)
"""Closes the live socket that the current task serves, with a reason and a close code."""

REFUSAL = {
    "detail": "This process accepts requests only from the DevUI server that started it.",
    "code": "wrong_token",
    "hint": "Send the request to that server.",
}


class TokenGuard:
    """ASGI middleware that refuses every request without the token.

    The web process has authenticated the caller already. ADK trusts only loopback peers with its development paths and
    sees no peer on a unix socket; therefore the client is set to the loopback address.
    """

    def __init__(self, app: AsgiApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Forward requests with the token; refuse all others."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif self._has_token(scope):
            sender.set(Sender.of(Headers(scope=scope)))
            await self._app({**scope, "client": ("127.0.0.1", 0)}, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": REFUSAL["detail"]})
        else:
            await _send_refusal(send)

    def _has_token(self, scope: Scope) -> bool:
        name = TOKEN_HEADER.lower().encode()
        tokens = [value for header, value in scope["headers"] if header.lower() == name]
        return len(tokens) == 1 and compare_digest(tokens[0], self._token)


async def _send_refusal(send: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(REFUSAL).encode()})


class HeldResponse:
    """A streamed response of ADK's server whose head is held until the run is admitted or the first bytes come.

    ADK's server begins to respond before it starts the run. Without this, a refused run would be a frame in a 200.
    """

    def __init__(self, send: Any) -> None:
        self._send = send
        self._head: dict[str, Any] | None = None
        self._is_refused = False
        self._is_released = False

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message of ADK's server; hold its head; drop it if the run was refused."""
        if self._is_refused:
            return
        if message["type"] == "http.response.start" and not self._is_released:
            self._head = message
            return
        await self.release()
        await self._send(message)

    async def release(self) -> None:
        """Send the head now, and all further messages at once."""
        self._is_released = True
        head, self._head = self._head, None
        if head is not None:
            await self._send(head)

    async def refuse(self, error: DevUIError) -> None:
        """Respond with an error instead, unless the head has been sent."""
        if self._is_released:
            return
        self._is_refused = True
        headers = [(b"content-type", b"application/json")]
        if error.retry_after:
            headers.append((b"retry-after", str(error.retry_after).encode()))
        body = {"detail": error.message, "code": error.code, "hint": error.hint}
        await self._send({"type": "http.response.start", "status": error.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": json.dumps(body).encode()})


held_response: ContextVar[HeldResponse | None] = ContextVar("held_response", default=None)
"""The response to the current request, if its head is held."""


class StreamHolder:
    """ASGI middleware that holds the heads of streamed runs; see `HeldResponse`."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Hold the head of ADK's streamed runs; forward everything else unchanged."""
        if scope["type"] != "http" or scope["path"] != STREAM_PATH:
            await self._app(scope, receive, send)
            return
        held = HeldResponse(send)
        held_response.set(held)
        await self._app(scope, receive, held.send)


class LiveFrameFilter:
    """ASGI middleware that drops frames that are not a `LiveRequest`, logs them, and shortens close reasons.

    ADK's server stops reading after a frame that it cannot parse (`process_messages` in
    `google/adk/cli/api_server.py`). It would not notice that its client disconnects, and the run would block its
    session for good.

    ADK's server leaves the socket open when the run behind it was cancelled, and closes it as after an internal error
    when it was refused, so the run closes it (`hang_up`). What ADK's server sends after that is dropped.

    It closes with the first 123 characters of an error. A close frame carries 123 bytes, so a longer reason in a
    non-Latin script would break the connection. If FastAPI refuses the query, the reason is a list of errors.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Filter ADK's live socket; forward everything else unchanged."""
        if scope["type"] != "websocket" or scope["path"] != LIVE_PATH:
            await self._app(scope, receive, send)
            return

        async def readable() -> Any:
            while _is_unreadable(message := await receive()):
                pass
            return message

        is_closed = False

        async def short(message: dict[str, Any]) -> None:
            nonlocal is_closed
            if is_closed:
                return
            if message["type"] == "websocket.close":
                is_closed = True
                message = {**message, "reason": close_reason(str(message.get("reason") or ""))}
            await send(message)

        async def close(reason: str, code: int) -> None:
            with suppress(RuntimeError, OSError):  # the client has disconnected
                await short({"type": "websocket.close", "code": code, "reason": reason})

        hang_up.set(close)
        await self._app(scope, readable, short)


def _is_unreadable(message: dict[str, Any]) -> bool:
    """Tell whether a message is text that ADK's server cannot parse. For bytes ADK closes the socket itself."""
    text = message.get("text")
    if message["type"] != "websocket.receive" or text is None:
        return False
    try:
        check_value_count(text)
        LiveRequest.model_validate_json(text)
    except TooManyValues as error:
        why = str(error)
    except ValidationError as error:
        why = error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
    else:
        return False
    log.warning("A frame on %s was dropped, because it is not a LiveRequest: %s", LIVE_PATH, why)
    return True
