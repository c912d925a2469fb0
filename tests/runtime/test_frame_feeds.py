"""Feeds of frames of runs that no process streams yet."""

from __future__ import annotations

import asyncio
import uuid

from devui.supervisor import frame_feeds, http_calls
from devui.supervisor.frame_feeds import FrameFeeds
from sessions_app.runs import lifecycle
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Run
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.patience import PATIENCE_S


async def create_run() -> Run:
    key = SessionKey("", "talker", "ann", uuid.uuid4().hex)
    session = await units_of_work.write(writes.create_session, key)
    return await units_of_work.write(lifecycle.create_run, session.pk, {})


async def test_claim_of_a_run_starts_its_stream(store, monkeypatch):
    async def stream(peer, run_id, after):
        yield {"n": 1, "type": "chunk", "text": f"from {peer}"}
        yield {"n": 2, "type": "end", "status": "done"}

    monkeypatch.setattr(http_calls, "stream_frames", stream)
    run = await create_run()
    feeds = FrameFeeds(lambda run: "its process" if run.status == Run.Status.RUNNING else None)
    frames = feeds.follow(run.pk)
    first = asyncio.ensure_future(anext(frames))
    async with asyncio.timeout(PATIENCE_S):
        assert not (await asyncio.wait({first}, timeout=0.1))[0]
        await units_of_work.write(lifecycle.claim, run.pk, None, "v1")
        assert (await first)["text"] == "from its process"
        assert [frame["type"] async for frame in frames] == ["end"]
    await feeds.close()


async def test_feed_of_a_waiting_run_ends_with_its_last_reader(store, monkeypatch):
    loop, was_read = asyncio.get_running_loop(), asyncio.Event()
    read = frame_feeds._read_run

    def read_and_tell(run_id):
        row = read(run_id)
        loop.call_soon_threadsafe(was_read.set)
        return row

    monkeypatch.setattr(frame_feeds, "_read_run", read_and_tell)
    run = await create_run()
    feeds = FrameFeeds(lambda run: None)
    readers = [asyncio.ensure_future(anext(feeds.follow(run.pk))) for _ in range(2)]
    async with asyncio.timeout(PATIENCE_S):
        await was_read.wait()
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        await asyncio.gather(*feeds._tasks)
        frames = feeds.follow(run.pk)
        again = asyncio.ensure_future(anext(frames))
        await units_of_work.write(lifecycle.end_queued, run.pk, Run.Status.CANCELLED)
        assert (await again)["status"] == "cancelled"
    await feeds.close()
