"""The socket of a session page."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import URLPattern, path

from sessions_app.errors import StoreFault
from sessions_app.live import page_socket
from sessions_app.live.session_tail import SessionTail

BAD_CURSOR = 4400
NO_SESSION = 4404
RETRY_LATER = 1011

CURSOR_DIGITS = 15
"""JavaScript represents integers of this many digits exactly."""

log = logging.getLogger(__name__)


class SessionSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """Sends the changes of a session after `?after=<seq>` and ignores messages. `?rows=0` requests counts only.

    Refusals are close codes after the handshake: to a browser a refused handshake looks like a server that is down, and
    it would retry forever. 1011 means: retry.
    """

    channel_layer_alias = None
    task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept the socket and start sending."""
        await self.accept()
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        cursor = parse_cursor(query.get("after", [""])[0])
        if cursor is None:
            await self.close(code=BAD_CURSOR, reason="after= must be the seq of an event, or 0")
            return
        session_pk = self.scope["url_route"]["kwargs"]["pk"]
        tail = SessionTail(session_pk, cursor, self.send_message, rows=query.get("rows") != ["0"])
        self.task = asyncio.create_task(self._follow(tail), name=f"devui-tail-{session_pk}")

    async def disconnect(self, code: int) -> None:
        """Stop sending."""
        if self.task:
            self.task.cancel()
            await asyncio.wait([self.task])

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore messages: pages act by ordinary requests."""

    async def send_message(self, text: str) -> None:
        """Send one message."""
        await page_socket.send_text(self, text)

    async def _follow(self, tail: SessionTail) -> None:
        try:
            await tail.run()
        except page_socket.PageGone:
            return
        except StoreFault as fault:
            log.warning(
                "Session %s: its socket is closed and opened again: %s", tail.session_pk, fault.message
            )
            await self.close(code=RETRY_LATER)
        except Exception:
            log.exception("Session %s: its socket failed after event %s", tail.session_pk, tail.cursor)
            await self.close(code=RETRY_LATER)
        else:
            await self.close(code=NO_SESSION, reason="no such session")


def parse_cursor(text: str) -> int | None:
    """Return the cursor of a query string; None if it is no event number."""
    if not (text.isascii() and text.isdecimal()) or len(text) > CURSOR_DIGITS:
        return None
    return int(text)


websocket_urlpatterns: list[URLPattern] = [
    path("ws/sessions/<int:pk>/", SessionSocket.as_asgi(), name="session-socket"),
]
