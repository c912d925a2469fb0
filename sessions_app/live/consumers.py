"""The socket of a session page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.urls import URLPattern

from sessions_app.live.page_socket import Close, PageSocket
from sessions_app.live.session_tail import SessionTail
from sessions_app.roles import READ
from sessions_app.routes import socket_route

BAD_CURSOR = Close(4400, "after= must be the seq of an event, or 0")
NO_SESSION = Close(4404, "no such session")

CURSOR_DIGITS = 15
"""JavaScript represents integers of this many digits exactly."""


class SessionSocket(PageSocket):
    """Sends the changes of a session after `?after=<seq>`. `?rows=0` requests counts only.

    Refusals are close codes after the handshake: to a browser a refused handshake looks like a server that is down, and
    it would retry forever.
    """

    tail: SessionTail | None = None

    async def send_changes(self, route: Mapping[str, Any], query: Mapping[str, str]) -> Close:
        """Send changes until the session is deleted."""
        cursor = parse_cursor(query.get("after", ""))
        if cursor is None:
            return BAD_CURSOR
        self.tail = SessionTail(route["pk"], cursor, self.send_text, rows=query.get("rows") != "0")
        await self.tail.run()
        return NO_SESSION

    def describe(self) -> str:
        """Return the path of the socket and the last event that it sent."""
        return f"{super().describe()} after event {self.tail.cursor if self.tail else 0}"


def parse_cursor(text: str) -> int | None:
    """Return the cursor of a query string; None if it is no event number."""
    if not (text.isascii() and text.isdecimal()) or len(text) > CURSOR_DIGITS:
        return None
    return int(text)


websocket_urlpatterns: list[URLPattern] = [
    socket_route("ws/sessions/<int:pk>/", SessionSocket.as_asgi(), READ, "session-socket"),
]
