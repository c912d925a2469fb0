"""Requests and tokens of a model in the last minute, by seconds. Pure.

No span of 60 seconds exceeds the limit, whenever it begins, because services count in minutes of their own. A token
bucket that holds the requests of a minute would allow twice as many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

MINUTE_S = 60


class Slot(NamedTuple):
    """Requests and tokens in the second that begins at `second` (epoch)."""

    second: int
    requests: int
    tokens: int

    @property
    def expires_at(self) -> int:
        """The time from which nothing in this second is in the last minute."""
        return self.second + 1 + MINUTE_S


@dataclass
class SlidingMinute:
    """The slots of the last minute, oldest first."""

    slots: list[Slot] = field(default_factory=list)

    @classmethod
    def read(cls, text: str, now: float) -> Self:
        """Return the last minute from its JSON. Slots in the future, before a clock was set back, are omitted."""
        slots = (Slot(*numbers) for numbers in json.loads(text))
        return cls([slot for slot in slots if slot.second <= now < slot.expires_at])

    def as_json(self) -> str:
        """Return the slots as JSON."""
        return json.dumps(self.slots, separators=(",", ":"))

    @property
    def requests(self) -> int:
        """Number of requests."""
        return sum(slot.requests for slot in self.slots)

    @property
    def tokens(self) -> int:
        """Number of tokens, used and reserved."""
        return sum(slot.tokens for slot in self.slots)

    @property
    def expected_tokens(self) -> int:
        """Tokens that a further request is expected to use: the mean of the last minute."""
        return self.tokens // max(self.requests, 1)

    def seconds_until_free(self, requests: int | None, tokens: int | None, now: float) -> float:
        """Return the seconds until a further request is within limits (None: no limit); 0.0: it is.

        A single request may use more tokens than a minute has: it waits until no other is in the minute.
        """
        used_requests, used_tokens, free_at = self.requests, self.tokens, now
        expected = self.expected_tokens
        for slot in self.slots:
            has_request = requests is None or used_requests < requests
            if has_request and (tokens is None or used_tokens + expected <= tokens):
                break
            used_requests -= slot.requests
            used_tokens -= slot.tokens
            free_at = slot.expires_at
        return free_at - now

    def add(self, second: int, requests: int, tokens: int) -> None:
        """Add to a second of the last minute; negative: subtract."""
        self.slots = _merge_slots([*self.slots, Slot(second, requests, tokens)])

    def settle(self, second: int, reserved: int, tokens: int, now: float) -> None:
        """Replace the tokens reserved by a request at `second` by those that it used. They count from now on."""
        if any(slot.second == second for slot in self.slots):
            self.add(second, 0, -reserved)
        self.add(int(now), 0, tokens)


def _merge_slots(slots: Iterable[Slot]) -> list[Slot]:
    by_second: dict[int, Slot] = {}
    for slot in slots:
        earlier = by_second.get(slot.second, Slot(slot.second, 0, 0))
        by_second[slot.second] = Slot(
            slot.second, earlier.requests + slot.requests, earlier.tokens + slot.tokens
        )
    return sorted(by_second.values())
