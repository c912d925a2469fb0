"""What clients send on ADK's live socket, looked at before ADK's server reads it, and how that server closes it.

That server reads no more after a frame that it cannot read (`process_messages` in `google/adk/cli/api_server.py`), and
then never learns that its client has gone: the run would go on, and hold up its session, for good.

It closes with an error's first 123 characters. A close carries 123 bytes, so an error in most of the world's scripts
would break the connection unsaid.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from google.adk.agents.live_request_queue import LiveRequest
from pydantic import ValidationError

from sessions_app.runs.runtime_client import close_reason

LIVE_PATH = "/run_live"

log = logging.getLogger(__name__)

AsgiApp = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class LiveFrameFilter:
    """ASGI wrapper that leaves out frames that are no `LiveRequest`, says so in the log, and closes in few words."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Let ADK's live socket see what it can read and close as a socket can; pass everything else on."""
        if scope["type"] != "websocket" or scope["path"] != LIVE_PATH:
            await self._app(scope, receive, send)
            return

        async def readable() -> Any:
            while _is_unreadable(message := await receive()):
                pass
            return message

        async def short(message: dict[str, Any]) -> None:
            if message["type"] == "websocket.close":
                message = {**message, "reason": close_reason(message.get("reason") or "")}
            await send(message)

        await self._app(scope, readable, short)


def _is_unreadable(message: dict[str, Any]) -> bool:
    """Tell whether a message is a text that ADK's server cannot read. It closes on bytes by itself."""
    text = message.get("text")
    if message["type"] != "websocket.receive" or text is None:
        return False
    try:
        LiveRequest.model_validate_json(text)
    except ValidationError as error:
        why = error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
        log.warning("A frame on %s is left out, because it is no LiveRequest: %s", LIVE_PATH, why)
        return True
    return False
