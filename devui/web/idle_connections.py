"""Connections of the web process: one that asks nothing is closed, which uvicorn does only between two requests."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADERS_TIMEOUT_S = 15.0
"""Seconds in which the headers of a request have to be there, from the connection or the last answer on."""

MAX_IDLE = 256
"""Connections that may wait for a request at once. Beyond, those that have waited longest are closed."""

MIN_WAIT_S = 1.0
"""Seconds that each may wait nevertheless: of many that come at once, the requests are read first."""


class TimedHTTPProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # uvicorn picks the class at import
    """uvicorn's HTTP connection, closed when it does not bring a request in time."""

    _idle: ClassVar[dict[TimedHTTPProtocol, None]] = {}

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._idle[self] = None
        self._deadline: asyncio.TimerHandle = self.loop.call_later(HEADERS_TIMEOUT_S, self._end_wait)
        if len(self._idle) > MAX_IDLE:
            self.loop.call_later(MIN_WAIT_S, self._make_room)

    def _make_room(self) -> None:
        if len(self._idle) > MAX_IDLE:
            next(iter(self._idle))._end_wait()

    def _stop_waiting(self) -> None:
        if self in self._idle:
            del self._idle[self]
            self._deadline.cancel()

    def _end_wait(self) -> None:
        """Close the connection, unless a request is being answered or it has become a socket."""
        self._stop_waiting()
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if not is_answering and self.transport.get_protocol() is self:
            self.transport.close()
