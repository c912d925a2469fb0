"""Messages to a page that may have been closed."""

from __future__ import annotations

import json
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer


class PageGone(Exception):
    """The browser has closed the page."""


def to_json(message: dict[str, Any]) -> str:
    """Return a message as JSON."""
    return json.dumps(message, ensure_ascii=False)


async def send_text(socket: AsyncWebsocketConsumer, text: str) -> None:
    """Send the text of a message.

    Raises:
        PageGone: the connection is closed. ASGI servers raise an `OSError` before the disconnect is read.
    """
    try:
        await socket.send(text_data=text)
    except OSError as error:
        raise PageGone from error
