"""Rows that wait for a process: which process takes them, and who ends those that none takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sessions_app.delivery import deliveries as delivery_module
from sessions_app.delivery.deliveries import Deliveries, Delivery
from sessions_app.delivery.failure import Failure
from sessions_app.delivery.process_tries import MAX_PROCESSES, ProcessEnded, ProcessTries
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, RuntimeUnavailable, ServerStopping, StoreUnavailable
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def store(transactional_db: None) -> Iterator[None]:
    yield
    units_of_work.close_pools()


class Parcel(Delivery):
    """A row whose process answers each time with the next of `answers`: an error, or None when it takes the row."""

    def __init__(self, *answers: Exception | None) -> None:
        super().__init__("weather", "row")
        self.answers = list(answers)
        self.ends: list[tuple[Failure, int]] = []
        self.releases = 0

    async def send(self) -> None:
        if answer := self.answers.pop(0):
            raise answer

    def end(self, failure: Failure, ended_processes: int) -> None:
        self.ends.append((failure, ended_processes))

    def release(self) -> None:
        self.releases += 1


class LongParcel(Parcel):
    """A row whose process does not answer until it is let."""

    def __init__(self) -> None:
        super().__init__(None)
        self.may_answer = asyncio.Event()

    async def send(self) -> None:
        await self.may_answer.wait()
        await super().send()


async def test_row_goes_to_the_next_process_when_one_ends():
    parcel = Parcel(ProcessEnded("signal 9"), ProcessEnded("signal 9"), None)
    await Deliveries().deliver(parcel)
    assert (parcel.answers, parcel.ends) == ([], [])


async def test_row_ends_once_after_the_last_process_has_ended():
    parcel = Parcel(*[ProcessEnded(f"process {n} ended") for n in range(MAX_PROCESSES)], None)
    with pytest.raises(ProcessEnded):
        await Deliveries().deliver(parcel)
    assert [(failure.message, ended) for failure, ended in parcel.ends] == [
        ("process 2 ended", MAX_PROCESSES)
    ]
    assert parcel.answers == [None], "no further process was asked"


async def test_processes_that_end_after_they_took_the_row_count_as_well():
    deliveries = Deliveries()
    await deliveries.deliver(Parcel(ProcessEnded("first"), None))
    await asyncio.sleep(0)
    deliveries.redeliver(Parcel(None), ProcessEnded("second"))
    await deliveries.stop()
    late = Parcel(None)
    deliveries.redeliver(late, ProcessEnded("third"))
    with pytest.raises(ProcessEnded, match="third"):
        await deliveries.deliver(late)
    assert [ended for _, ended in late.ends] == [MAX_PROCESSES]


async def test_refused_row_ends_with_message_and_hint():
    parcel = Parcel(BadInput("It cannot run.", hint="Correct it."))
    with pytest.raises(BadInput):
        await Deliveries().deliver(parcel)
    assert [(failure.type, failure.text, ended) for failure, ended in parcel.ends] == [
        ("BadInput", "It cannot run. Correct it.", 0)
    ]


async def test_unexpected_error_ends_the_row_without_its_message():
    parcel = Parcel(KeyError("token=battery-staple"))
    with pytest.raises(KeyError):
        await Deliveries().deliver(parcel)
    [(failure, _)] = parcel.ends
    assert (failure.type, "battery" in failure.text, failure.traceback) == ("KeyError", False, "")


async def test_row_waits_while_the_store_is_unavailable():
    parcel = Parcel(StoreUnavailable("The database restarts."), None)
    await Deliveries().deliver(parcel)
    assert (parcel.answers, parcel.ends) == ([], [])


async def test_stopping_server_leaves_rows_to_the_next_one():
    parcel = Parcel(ServerStopping())
    with pytest.raises(ServerStopping):
        await Deliveries().deliver(parcel)
    assert (parcel.ends, parcel.releases) == ([], 1)


async def test_stopped_deliveries_release_their_rows(monkeypatch):
    monkeypatch.setattr(delivery_module, "TAKE_S", 0.0)
    deliveries, parcel = Deliveries(), LongParcel()
    await deliveries.deliver(parcel)
    await deliveries.stop()
    assert (parcel.ends, parcel.releases) == ([], 1)


async def test_row_in_delivery_is_not_delivered_twice():
    deliveries, parcel = Deliveries(), LongParcel()
    task = deliveries.start(parcel)
    deliveries.redeliver(Parcel(BadInput("It is sent twice.")), ProcessEnded("signal 9"))
    assert deliveries.start(Parcel(BadInput("It is sent twice."))) is task
    parcel.may_answer.set()
    async with asyncio.timeout(PATIENCE_S):
        await task
    assert parcel.ends == []


async def test_error_of_the_last_of_any_processes_is_raised():
    answers = [RuntimeUnavailable("It does not answer."), RuntimeUnavailable("It ended."), None]

    async def send() -> str:
        if answer := answers.pop(0):
            raise answer
        return "taken"

    assert await ProcessTries(RuntimeUnavailable).run(send) == "taken"
    answers[:] = [RuntimeUnavailable(f"{n}") for n in range(MAX_PROCESSES)]
    with pytest.raises(RuntimeUnavailable, match=f"^{MAX_PROCESSES - 1}$"):
        await ProcessTries(RuntimeUnavailable).run(send)
    answers[:] = [RuntimeUnavailable("It ended.")]
    with pytest.raises(RuntimeUnavailable):
        await ProcessTries(ProcessEnded).run(send)
    assert answers == []
