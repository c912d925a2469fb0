"""How often somebody may try a password: a few times an address and a while, and few at once.

Hashing is slow on purpose, so it has one thread of its own, in which tries wait for each other: many at once neither
guess faster nor slow down anything else.
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

from django.contrib.auth.hashers import check_password

from devui.web.login.credentials_file import Login
from sessions_app.errors import DevUIError

MAX_ATTEMPTS = 5
"""Tries of an address within `WHILE_S`."""

WINDOW_S = 60.0
MAX_WAITING = 10
MAX_ADDRESSES = 10_000
IPV6_NETWORK = 64
"""Bits of an IPv6 address that one customer has: all of them count as one."""


class TooManyAttempts(DevUIError):
    """Somebody tries passwords faster than a person mistypes."""

    status = 429
    code = "too_many_attempts"


@dataclass
class PasswordThrottle:
    """Tries by addresses. One is counted when it begins: many at once are no way around.

    Attributes:
        clock: the time in seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _tries: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)
    _waiting: int = 0
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="devui-password")
    )

    async def check(self, login: Login, password: str, address: str) -> bool:
        """Tell whether a password is right. A right one takes back what its address tried before.

        Raises:
            TooManyAttempts: the address has tried too often, or too many wait already.
        """
        network = client_network(address)
        self._count(network)
        if self._waiting >= MAX_WAITING:
            raise TooManyAttempts("Too many passwords are being tried.", hint="Try again in a moment.")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            is_right = await loop.run_in_executor(self._thread, check_password, password, login.password)
        finally:
            self._waiting -= 1
        if is_right:
            self._tries.pop(network, None)
        return is_right

    def _count(self, network: str) -> None:
        now = self.clock()
        recent = [moment for moment in self._tries.pop(network, []) if now - moment < WINDOW_S]
        self._tries[network] = recent
        if len(recent) >= MAX_ATTEMPTS:
            wait = math.ceil(WINDOW_S - (now - recent[0]))
            raise TooManyAttempts(
                f"{len(recent)} wrong passwords came from here within {WINDOW_S:.0f} s.",
                hint=f"Try again in {wait} s.",
            )
        recent.append(now)
        while len(self._tries) > MAX_ADDRESSES:
            self._tries.popitem(last=False)


def client_network(address: str) -> str:
    """Return what counts as one address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.ip_network((parsed, IPV6_NETWORK), strict=False))
    return str(parsed)


throttle = PasswordThrottle()
"""Those of this process."""
