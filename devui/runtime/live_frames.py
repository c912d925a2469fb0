"""Filter for ADK's live socket: invalid frames from clients, and close reasons that are too long.

ADK's server stops reading after a frame that it cannot parse (`process_messages` in `google/adk/cli/api_server.py`).
It would not notice that its client disconnects, and the run would block its session for good.

It closes with the first 123 characters of an error. A close frame carries 123 bytes, so a longer reason in a
non-Latin script would break the connection.
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
    """ASGI middleware that drops frames that are not a `LiveRequest`, logs them, and shortens close reasons."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Filter ADK's live socket; forward everything else unchanged."""
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
    """Tell whether a message is text that ADK's server cannot parse. For bytes ADK closes the socket itself."""
    text = message.get("text")
    if message["type"] != "websocket.receive" or text is None:
        return False
    try:
        LiveRequest.model_validate_json(text)
    except ValidationError as error:
        why = error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
        log.warning("A frame on %s was dropped, because it is not a LiveRequest: %s", LIVE_PATH, why)
        return True
    return False
