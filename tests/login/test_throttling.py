"""Limits of password attempts."""

from __future__ import annotations

import asyncio

import pytest

from devui.web.login.throttling import (
    MAX_ATTEMPTS,
    MAX_WAITING,
    WINDOW_S,
    PasswordThrottle,
    TooManyAttempts,
    client_network,
)
from tests.login.conftest import sign_in


def fail() -> bool:
    """Check a wrong password."""
    return False


def succeed() -> bool:
    """Check the right password."""
    return True


class Clock:
    """A time that goes on when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_attempts_of_an_address_are_limited():
    clock = Clock()
    attempts = PasswordThrottle(clock)
    for _ in range(MAX_ATTEMPTS):
        assert not await attempts.attempt(fail, "10.0.0.1")
    with pytest.raises(TooManyAttempts) as refused:
        await attempts.attempt(succeed, "10.0.0.1")
    assert f"{WINDOW_S:.0f} s" in refused.value.message
    assert await attempts.attempt(succeed, "10.0.0.2")
    clock.now += WINDOW_S
    assert await attempts.attempt(succeed, "10.0.0.1")


async def test_right_password_clears_failed_attempts():
    attempts = PasswordThrottle(Clock())
    for _ in range(3):
        for _ in range(MAX_ATTEMPTS - 1):
            assert not await attempts.attempt(fail, "10.0.0.1")
        assert await attempts.attempt(succeed, "10.0.0.1")


async def test_concurrent_attempts_do_not_evade_the_limit():
    attempts = PasswordThrottle(Clock())
    results = await asyncio.gather(
        *(attempts.attempt(fail, "10.0.0.1") for _ in range(50)), return_exceptions=True
    )
    assert [result for result in results if result is False] == [False] * MAX_ATTEMPTS


async def test_queue_of_attempts_is_bounded():
    attempts = PasswordThrottle(Clock())
    results = await asyncio.gather(
        *(attempts.attempt(fail, f"10.0.0.{n}") for n in range(50)), return_exceptions=True
    )
    assert sum(isinstance(result, TooManyAttempts) for result in results) >= 50 - MAX_WAITING


async def test_number_of_recorded_addresses_is_bounded():
    attempts = PasswordThrottle(Clock(), max_addresses=10)
    for n in range(30):
        await attempts.attempt(fail, f"10.0.0.{n}")
    assert len(attempts._tries) == 10


def test_ipv6_network_counts_as_one_address():
    assert (
        client_network("2001:db8::1") == client_network("2001:db8::ffff:1") != client_network("2001:db8:1::1")
    )
    assert client_network("::ffff:10.0.0.1") == client_network("10.0.0.1")
    assert client_network("testclient") == "testclient"


@pytest.mark.parametrize("address", ["127.0.0.2", "127.255.255.254", "::1", "::ffff:127.9.9.9"])
def test_all_addresses_of_this_machine_count_as_one(address: str):
    assert client_network(address) == client_network("127.0.0.1") != client_network("128.0.0.1")


async def test_page_shows_seconds_to_wait(web, login):
    for _ in range(MAX_ATTEMPTS):
        await sign_in(web, "wrong horse battery")
    answer = await sign_in(web)
    assert answer.status_code == 429
    assert "Try again in" in answer.text
    assert 0 < int(answer.headers["retry-after"]) <= WINDOW_S
    assert "set-cookie" not in answer.headers
