"""Limits on request bodies: how large one may be, how many bytes are held at once, and how slowly one may come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from devui import errors
from devui.errors import Problem

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]

SMALL_BYTES = 64 * 1024
"""Bodies up to here are read even when large ones take all the room: a click that ends a run is small."""

PARSED_FACTOR = 4
"""How many bytes a byte of JSON counts for while it is worked on: its values take several times as much memory."""

FIRST_S = 30.0
"""Seconds in which a body may come whatever its size."""

LEAST_RATE = 32 * 1024
"""Bytes a second at which a body has to come that takes longer."""

RETRY_S = 5

TOO_MANY = Problem(
    503,
    "Too many request bodies at once",
    "bodies_busy",
    f"Send it again in {RETRY_S} s. DEVUI_MAX_BODIES_MB limits how much is held at once.",
)
TOO_SLOW = Problem(
    408,
    "Request body too slow",
    "body_timeout",
    f"Send it within {FIRST_S:.0f} s, or at {LEAST_RATE // 1024} KiB a second or more.",
)
DISCONNECTED: Message = {"type": "http.disconnect"}


@dataclass(slots=True)
class Room:
    """What requests may hold at once, of whatever is counted.

    Attributes:
        total: the most.
    """

    total: int
    _held: dict[object, int] = field(default_factory=dict)
    _sum: int = 0

    def hold(self, holder: object, count: int) -> bool:
        """Let `holder` hold `count` in all, if there is room for it."""
        together = self._sum - self._held.get(holder, 0) + count
        if together > self.total:
            return False
        self._held[holder] = count
        self._sum = together
        return True

    def release(self, holder: object) -> None:
        """Let `holder` hold nothing any more."""
        self._sum -= self._held.pop(holder, 0)


@dataclass(slots=True, eq=False)
class LimitedBody:
    """A request's body as it is read: its announced length counts from the start, any other byte as it comes.

    Attributes:
        source: the server's `receive`.
        room: bytes that all requests may hold at once.
        most: its largest size in bytes.
        announced: its size by its own header; 0: it has none.
        factor: how many bytes a byte of it counts for.
        problem: which limit it broke; it is not read any further.
        is_complete: nothing of it is still to come.
    """

    source: Receive
    room: Room
    most: int
    announced: int = 0
    factor: int = 1
    problem: Problem | None = None
    is_complete: bool = False
    _received: int = 0
    _begun: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    async def receive(self) -> Message:
        """Return the server's next message; once the body breaks a limit, that the client is gone."""
        if self.is_complete:
            return await self.source()
        if not self._fits():
            return DISCONNECTED
        try:
            async with asyncio.timeout_at(self._begun + FIRST_S + self._received / LEAST_RATE):
                message = await self.source()
        except TimeoutError:
            self.problem = TOO_SLOW
            return DISCONNECTED
        self._received += len(message.get("body", b""))
        self.is_complete = not message.get("more_body", False)
        return message if self._fits() else DISCONNECTED

    def hold_bytes_only(self) -> None:
        """Give back the room of the values that were made of the body: the answer begins."""
        if self._size > SMALL_BYTES:
            self.room.hold(self, self._size)

    def release(self) -> None:
        """Give the room back."""
        self.room.release(self)

    @property
    def _size(self) -> int:
        return max(self.announced, self._received)

    def _fits(self) -> bool:
        if self._size > self.most:
            self.problem = errors.too_large()
        elif self._size > SMALL_BYTES and not self.room.hold(self, self._size * self.factor):
            self.problem = TOO_MANY
        return self.problem is None
