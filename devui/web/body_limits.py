"""Limits of request bodies: size, number of values, memory held at once, and least transfer rate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import IO, Any

from django.core.exceptions import RequestAborted

from devui.web import error_responses
from devui.web.error_responses import ErrorAnswer
from sessions_app.store.text_input import MAX_VALUES, ValueCounter

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]

SMALL_BYTES = 64 * 1024
"""Bodies up to this size are read even if large ones fill the quota, so that a small request can end a run."""

PARSED_FACTOR = 4
"""Share of the quota per byte of JSON until the response begins: parsed values need several times the memory."""

VALUE_BYTES = 256
"""Share of the quota per value of JSON until the response begins: two bytes of text may be a value of this size."""

GRACE_S = 30.0
"""Seconds that every body may take, whatever its size."""

MIN_RATE = 32 * 1024
"""Least bytes per second of a body that takes longer than `GRACE_S`."""

RETRY_S = 5
"""Seconds after which a refused client may try again."""

TOO_MANY_BODIES = ErrorAnswer(
    503,
    "Too many request bodies at once",
    "bodies_busy",
    f"Send it again in {RETRY_S} s. DEVUI_MAX_BODIES_MB limits how much is held at once.",
    retry_after=RETRY_S,
)
TOO_MANY_VALUES = ErrorAnswer(
    413,
    "Request body has too many values",
    "too_many_values",
    f"JSON may have {MAX_VALUES:,} values. Send it in parts, or keep large data as an artifact.",
)
TOO_SLOW = ErrorAnswer(
    408,
    "Request body too slow",
    "body_timeout",
    f"Send it within {GRACE_S:.0f} s, or at {MIN_RATE // 1024} KiB a second or more.",
)


@dataclass(slots=True)
class SharedQuota:
    """A quota that requests share, in bytes or requests.

    Attributes:
        total: amount that may be held at once.
    """

    total: int
    _held: dict[object, int] = field(default_factory=dict)
    _sum: int = 0

    def hold(self, holder: object, count: int) -> bool:
        """Set the share of `holder` to `count`. Return False, without a change, if that exceeds the quota."""
        together = self._sum - self._held.get(holder, 0) + count
        if together > self.total:
            return False
        self._held[holder] = count
        self._sum = together
        return True

    def release(self, holder: object) -> None:
        """Return the share of `holder` to the quota."""
        self._sum -= self._held.pop(holder, 0)


@dataclass(slots=True, eq=False)
class LimitedBody:
    """A request body, limited while it is read. An announced length counts from the start, other bytes as they arrive.

    Attributes:
        source: the server's `receive`.
        quota: bytes that all requests together may hold.
        max_bytes: largest size.
        announced: Content-Length; 0 if missing.
        factor: share of the quota per byte; above 1, the body may be JSON, whose values are counted.
        grace_s, min_rate: seconds that every body may take, and least bytes per second of a longer one.
        problem: the limit that it exceeded, after which it is not read further; None if none.
        is_complete: the whole body was received.
        chunks: messages with bytes that were received.
    """

    source: Receive
    quota: SharedQuota
    max_bytes: int
    announced: int = 0
    factor: int = 1
    grace_s: float = GRACE_S
    min_rate: int = MIN_RATE
    problem: ErrorAnswer | None = None
    is_complete: bool = False
    chunks: int = 0
    _received: int = 0
    _values: ValueCounter = field(default_factory=ValueCounter)
    _begun: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    async def read_into(self, file: IO[bytes]) -> None:
        """Read the body into a file, until it is complete or exceeds a limit.

        Raises:
            RequestAborted: the client has left.
        """
        while self._check_size() and not self.is_complete:
            try:
                async with asyncio.timeout_at(self._begun + self.grace_s + self._received / self.min_rate):
                    message = await self.source()
            except TimeoutError:
                self.problem = TOO_SLOW
                break
            if message["type"] == "http.disconnect":
                raise RequestAborted
            chunk = message.get("body", b"")
            file.write(chunk)
            self.chunks += bool(chunk)
            self._received += len(chunk)
            if self.factor > 1:
                self._values.add(chunk)
            self.is_complete = not message.get("more_body", False)
        if self.problem is not None:
            file.truncate(0)  # the client may go on sending for a while
        file.seek(0)

    def hold_bytes_only(self) -> None:
        """Release the quota of the values parsed from the body, but not of its bytes: the response begins."""
        if self._largest_known_size > SMALL_BYTES:
            self.quota.hold(self, self._largest_known_size)

    def release(self) -> None:
        """Release all of its quota."""
        self.quota.release(self)

    @property
    def _largest_known_size(self) -> int:
        return max(self.announced, self._received)

    @property
    def _parsed_bytes(self) -> int:
        value_bytes = min(self._values.count * VALUE_BYTES, self.quota.total)  # one body alone always fits
        return max(self._largest_known_size * self.factor, value_bytes)

    def _check_size(self) -> bool:
        if self._largest_known_size > self.max_bytes:
            self.problem = error_responses.body_too_large()
        elif self._values.count > MAX_VALUES:
            self.problem = TOO_MANY_VALUES
        elif self._largest_known_size > SMALL_BYTES and not self.quota.hold(self, self._parsed_bytes):
            self.problem = TOO_MANY_BODIES
        return self.problem is None
