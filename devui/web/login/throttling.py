"""Throttling of password attempts: few per address and time window, and few at once.

Hashing is slow on purpose, so it runs in one thread of its own, in which attempts queue: many at once neither guess
faster nor slow down anything else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from sessions_app.store.errors import DevUIError

T = TypeVar("T")

MAX_ATTEMPTS = 5
"""Maximum attempts of an address within `WINDOW_S`."""

MAX_USER_ATTEMPTS = 20
"""Maximum attempts on a user within `WINDOW_S`, from all addresses."""

RETRY_S = 5
"""Seconds after which to try again when too many attempts wait."""

WINDOW_S = 60.0
MAX_WAITING = 10
MAX_ADDRESSES = 10_000
IPV6_NETWORK = 64
"""Bits of the IPv6 network of one customer; all its addresses count as one."""


class TooManyAttempts(DevUIError):
    """Passwords are tried faster than a person mistypes."""

    status = 429
    code = "too_many_attempts"


@dataclass
class PasswordThrottle:
    """Attempts by address and by user. An attempt counts from its start, so that many at once cannot evade a limit.

    Attributes:
        clock: returns the time in seconds.
        max_addresses: maximum addresses and users remembered; the one with the oldest attempt is forgotten first.
    """

    clock: Callable[[], float] = time.monotonic
    max_addresses: int = MAX_ADDRESSES
    _tries: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)
    _waiting: int = 0
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="devui-password")
    )

    async def attempt(self, verify: Callable[[], T], address: str, user: str = "") -> T:
        """Return what `verify` returns; a true value clears the attempts of the address.

        Args:
            user: name of the user whose password is tried; empty: there is only the owner.

        Raises:
            TooManyAttempts: too many attempts of the address or on the user, or too many in the queue.
        """
        self.count(address)
        if user:
            self._count_try(f"user {user}", MAX_USER_ATTEMPTS, f"sign in as {user} were made")
        if self._waiting >= MAX_WAITING:
            raise _too_many("Too many passwords are being tried.", RETRY_S)
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(self._thread, verify)
        finally:
            self._waiting -= 1
        if result:
            self.forget(address)
        return result

    def forget(self, address: str) -> None:
        """Forget the attempts of an address."""
        self._tries.pop(client_network(address), None)

    def count(self, address: str) -> None:
        """Count an attempt of an address.

        Raises:
            TooManyAttempts: the address has made too many.
        """
        self._count_try(client_network(address), MAX_ATTEMPTS, "sign in came from here")

    def _count_try(self, key: str, limit: int, what: str) -> None:
        now = self.clock()
        recent = [moment for moment in self._tries.pop(key, []) if now - moment < WINDOW_S]
        self._tries[key] = recent
        if len(recent) >= limit:
            wait = math.ceil(WINDOW_S - (now - recent[0]))
            raise _too_many(f"{len(recent)} attempts to {what} within {WINDOW_S:.0f} s.", wait)
        recent.append(now)
        while len(self._tries) > self.max_addresses:
            self._tries.popitem(last=False)


def _too_many(message: str, wait: int) -> TooManyAttempts:
    error = TooManyAttempts(message, hint=f"Try again in {wait} s.")
    error.retry_after = wait
    return error


def client_network(address: str) -> str:
    """Return the address or network that counts as one client. This machine has 16 million addresses, 127.0.0.0/8."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        parsed = parsed.ipv4_mapped or parsed
    if parsed.is_loopback:
        return "loopback"
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, IPV6_NETWORK), strict=False))
    return str(parsed)


throttle = PasswordThrottle()
"""The attempts of this process."""
