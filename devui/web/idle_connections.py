"""Timeouts of idle connections: uvicorn closes them only between two requests."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADERS_TIMEOUT_S = 15.0
"""Seconds for the headers of a request to arrive, from the connection or the previous response on."""

MAX_IDLE = 256
"""Most connections that wait for a request at once. Beyond that, the longest-waiting ones are closed."""

MIN_WAIT_S = 1.0
"""Seconds that every connection may wait even then, so that requests of many new connections are read first."""


class TimedHTTPProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # uvicorn picks the class at import
    """uvicorn's HTTP connection, closed if no request arrives in time.

    uvicorn creates the connections, so a server with other limits has a subclass.
    """

    headers_timeout_s = HEADERS_TIMEOUT_S
    max_idle = MAX_IDLE
    min_wait_s = MIN_WAIT_S

    _idle: ClassVar[dict[TimedHTTPProtocol, None]] = {}

    def connection_made(self, transport: Any) -> None:
        """Start waiting for the first request."""
        super().connection_made(transport)
        self._begin_wait()

    def on_response_complete(self) -> None:
        """Start waiting for the next request."""
        super().on_response_complete()
        self._begin_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _begin_wait(self) -> None:
        self._stop_waiting()
        self._idle[self] = None
        self._deadline: asyncio.TimerHandle = self.loop.call_later(self.headers_timeout_s, self._end_wait)
        if len(self._idle) > self.max_idle:
            self.loop.call_later(self.min_wait_s, self._make_room)

    def _make_room(self) -> None:
        if len(self._idle) > self.max_idle:
            next(iter(self._idle))._end_wait()

    def _stop_waiting(self) -> None:
        if self in self._idle:
            del self._idle[self]
            self._deadline.cancel()

    def _end_wait(self) -> None:
        """Close the connection, unless a request is being handled or the connection has become a socket."""
        self._stop_waiting()
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if not is_answering and self.transport.get_protocol() is self:
            self.transport.close()
