"""The indexing worker of the web process: indexes appended events; an event that fails stops no other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from sessions_app.live import indexer
from sessions_app.search import indexing
from sessions_app.store.database import change_listener, units_of_work
from sessions_app.store.errors import StoreFull
from sessions_app.store.index import index_backlog
from tests.timeline.story import Story

DEADLINE_S = 60.0


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """A store emptied after the test: the worker hops to other threads."""
    yield
    units_of_work.close_pools()


@contextlib.asynccontextmanager
async def working(retry_s: float = indexer.RETRY_S) -> AsyncIterator[None]:
    worker = asyncio.create_task(indexer.keep_indexed(retry_s=retry_s))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.wait([worker])


async def everything_is_indexed() -> None:
    async with asyncio.timeout(DEADLINE_S), change_listener.subscribe() as ring:
        while await units_of_work.read(index_backlog.sessions().exists):
            await ring.wait()


async def test_old_and_new_events_get_indexed(store: None):
    story = await units_of_work.write(Story)
    await units_of_work.write(story.says, "sunny")
    async with working():
        await everything_is_indexed()
        await units_of_work.write(story.says, "rainy")
        await everything_is_indexed()
        assert (await units_of_work.read(lambda: story.session)).indexed_seq == 2


@pytest.mark.parametrize("error", [StoreFull("The store is full."), ValueError("A damaged row.")])
async def test_indexing_goes_on_after_an_error(
    store: None, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    write, failures = indexing.store_batches, [error]

    def store_once_full(pieces: list[indexing.IndexBatch]) -> None:
        if failures:
            raise failures.pop()
        write(pieces)

    monkeypatch.setattr(indexing, "store_batches", store_once_full)
    story = await units_of_work.write(Story)
    await units_of_work.write(story.says, "sunny")
    async with working(retry_s=0.0):
        await everything_is_indexed()
    assert not failures
