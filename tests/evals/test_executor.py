"""The executor starts attempts in order within its capacity, and ends after the last one."""

from __future__ import annotations

import asyncio

import pytest

from evals_app.execution.admission import AttemptAdmission
from evals_app.execution.executor import AttemptExecutor


async def test_waiting_attempts_start_when_capacity_grows_unless_cancelled():
    gates = Gates()
    executor = gates.executor(parallelism=1)
    for number in (1, 2, 3):
        executor.enqueue(number)
    await settle()
    assert gates.inside == [1]
    executor.cancel(3)
    executor.resize(2)
    await settle()
    assert gates.inside == [1, 2]
    executor.cancel(1)
    await settle()
    assert gates.inside == [2]
    await gates.out(2)
    await executor.join()
    await executor.stop()
    assert list(gates.open) == [1, 2]


async def test_error_of_an_attempt_starts_no_other_and_is_raised_by_join():
    started = []

    async def work(number):
        started.append(number)
        if number == 2:
            raise ConnectionError("the store is gone")

    executor = AttemptExecutor(work, 1)
    for number in (1, 2, 3):
        executor.enqueue(number)
    with pytest.raises(ConnectionError):
        await executor.join()
    await executor.stop()
    assert started == [1, 2]


async def test_failure_of_an_abandoned_attempt_is_ignored():
    ended = []

    async def work(number):
        try:
            await asyncio.sleep(3600 if number == 1 else 0)
        except asyncio.CancelledError:
            raise ValueError("in the middle of something") from None
        ended.append(number)

    executor = AttemptExecutor(work, 1)
    executor.enqueue(1)
    executor.enqueue(2)
    await asyncio.sleep(0)
    executor.cancel(1)
    await executor.join()
    await executor.stop()
    assert ended == [2]


class Gates:
    """Executors of one room whose attempts stay until they are let out."""

    def __init__(self):
        self.room = AttemptAdmission()
        self.inside = []
        self.open = {}

    def executor(self, parallelism=4):
        return AttemptExecutor(self.work, parallelism, self.room)

    async def work(self, number):
        self.inside.append(number)
        self.open[number] = asyncio.Event()
        try:
            await self.open[number].wait()
        finally:
            self.inside.remove(number)

    async def out(self, number):
        self.open[number].set()
        for _ in range(5):  # the task ends, is noted, and those who get its place begin
            await asyncio.sleep(0)


async def settle():
    for _ in range(3):
        await asyncio.sleep(0)


async def test_exclusive_attempt_waits_for_others_and_blocks_later_ones():
    gates = Gates()
    first, other = gates.executor(), gates.executor()
    first.enqueue(1)
    other.enqueue(10)
    first.enqueue(2, alone=True)
    first.enqueue(3)
    other.enqueue(11)
    await settle()
    assert gates.inside == [1, 10]
    await gates.out(1)
    assert gates.inside == [10]
    await gates.out(10)
    assert gates.inside == [2]
    await gates.out(2)
    assert sorted(gates.inside) == [3, 11]
    await gates.out(3)
    await gates.out(11)
    await first.join()
    await other.join()


async def test_cancelled_exclusive_attempt_blocks_nobody():
    gates = Gates()
    first, other = gates.executor(), gates.executor()
    first.enqueue(1)
    first.enqueue(2, alone=True)
    other.enqueue(10)
    await settle()
    assert gates.inside == [1]
    first.cancel(2)
    await settle()
    assert gates.inside == [1, 10]
    await gates.out(1)
    await gates.out(10)
    await first.join()
    await other.join()


async def test_a_run_that_stops_leaves_the_room_to_others():
    gates = Gates()
    first, other = gates.executor(), gates.executor()
    first.enqueue(1, alone=True)
    first.enqueue(2, alone=True)
    other.enqueue(10)
    await settle()
    assert gates.inside == [1]
    await first.stop()
    await settle()
    assert gates.inside == [10]
    await gates.out(10)
    await other.join()
