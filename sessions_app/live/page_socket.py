"""Base class of the sockets that send changes to a page."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer

from sessions_app.store.errors import StoreFault

log = logging.getLogger(__name__)


class PageGone(Exception):
    """The browser has closed the page."""


class Close(NamedTuple):
    """Code and reason with which a socket is closed."""

    code: int = 1000
    reason: str = ""


RETRY_LATER = Close(1011)


def to_json(message: dict[str, Any]) -> str:
    """Return a message as JSON."""
    return json.dumps(message, ensure_ascii=False)


class PageSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """A socket that sends changes to a page. After an error it asks the page to reconnect."""

    channel_layer_alias = None
    task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept the socket and start sending."""
        await self.accept()
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        query_values = {name: values[0] for name, values in query.items()}
        sending = self._send_and_close(self.scope["url_route"]["kwargs"], query_values)
        self.task = asyncio.create_task(sending, name=f"devui-socket-{self.scope['path']}")

    async def disconnect(self, code: int) -> None:
        """Stop sending."""
        if self.task:
            self.task.cancel()
            await asyncio.wait([self.task])

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore messages: pages act by ordinary requests."""

    async def send_changes(self, route: Mapping[str, Any], query: Mapping[str, str]) -> Close:
        """Send changes until none can follow, and return how to close the socket.

        Args:
            route: parameters of the URL.
            query: its query string.
        """
        raise NotImplementedError

    async def send_text(self, text: str) -> None:
        """Send the text of a message.

        Raises:
            PageGone: the connection is closed. ASGI servers raise an `OSError` before the disconnect is read.
        """
        try:
            await self.send(text_data=text)
        except OSError as error:
            raise PageGone from error

    def describe(self) -> str:
        """Return a name of the socket for the log."""
        return str(self.scope["path"])

    async def _send_and_close(self, route: Mapping[str, Any], query: Mapping[str, str]) -> None:
        try:
            close = await self.send_changes(route, query)
        except PageGone:
            return
        except StoreFault as fault:
            log.warning("Socket %s: the page has to reconnect: %s", self.describe(), fault.message)
            close = RETRY_LATER
        except Exception:
            log.exception("Socket %s failed.", self.describe())
            close = RETRY_LATER
        await self.close(code=close.code, reason=close.reason)
