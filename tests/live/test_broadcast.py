"""Broadcast to many sockets of a session: rendered once, sent to all at their own pace, no row missed or doubled."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect

from devui.asgi import application
from sessions_app.live import snapshot
from sessions_app.live.session_tail import SessionTail
from sessions_app.store.database import units_of_work
from tests.live.conftest import Message, Page, foreign_writer, seqs_in, watching
from tests.live.streaming_runtime import create_claimed_run, is_pending
from tests.patience import PATIENCE_S
from tests.web import serve

SOCKETS = 30


@pytest.fixture
def renders(monkeypatch) -> Counter[str]:
    """How often each part of a page was rendered."""
    counted: Counter[str] = Counter()

    def count(name):
        render = getattr(snapshot, name)

        def counting(*args):
            counted[name] += 1
            return render(*args)

        monkeypatch.setattr(snapshot, name, counting)

    for name in ("read_snapshot", "read_events_after", "runs_html", "marks_html", "pending_html"):
        count(name)
    return counted


@asynccontextmanager
async def many(pk: int, after: int = 0, sockets: int = SOCKETS) -> AsyncIterator[list[Page]]:
    """Open sockets on a session."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(watching(pk, after)) for _ in range(sockets)]


async def all_hear(pages: list[Page], seq: int) -> None:
    await asyncio.gather(*(page.until_event(seq) for page in pages))


async def test_event_is_rendered_once_for_all_sockets(story, renders):
    await units_of_work.write(story.says, "before")
    async with many(story.pk) as pages:
        await all_hear(pages, 1)
        renders.clear()
        for seq in range(2, 12):
            await units_of_work.write(story.says, f"event {seq}")
            await all_hear(pages, seq)
        assert renders["read_events_after"] == 10
        assert renders["read_snapshot"] < 10 * SOCKETS, "and looked for once after a ring"
        assert all(page.seqs() == list(range(1, 12)) for page in pages)


async def test_run_is_rendered_once_for_all_sockets(story, renders):
    async with many(story.pk) as pages:
        update = [page.until(lambda message: message["type"] == "run") for page in pages]
        await asyncio.gather(*update)
        renders.clear()
        await create_claimed_run(story)
        active = [
            page.until(lambda message: message["type"] == "run" and message["active"]) for page in pages
        ]
        await asyncio.gather(*active)
        marks = [
            page.until(lambda message: message["type"] == "marks") for page in pages if not page.of("marks")
        ]
        await asyncio.gather(*marks)
        assert renders["runs_html"] <= 2, "queued and running may be seen apart"
        assert renders["marks_html"] == 1


async def test_streamed_text_is_rendered_once_and_replaced_by_its_event(
    story,
    runtime,
    renders,
):
    await create_claimed_run(story)
    async with many(story.pk) as pages:
        runtime.publish_text("It is ")
        await asyncio.gather(
            *(page.until(lambda m: is_pending(m) and "It is" in m["html"]) for page in pages)
        )
        assert renders["pending_html"] == 1
        runtime.publish_stored(1)
        await units_of_work.write(story.says, "It is sunny.")
        await all_hear(pages, 1)
        for page in pages:
            [event] = page.of("events")
            assert "It is sunny." in event["html"]
            assert event["pending"] == ""
            assert page.messages[-1] is event, "no older text comes behind it"


async def test_sockets_at_different_cursors_get_what_they_lack(story):
    for number in range(60):
        await units_of_work.write(story.says, f"event {number}")
    async with AsyncExitStack() as stack:
        cursors = [0, 7, 7, 59, 60]
        pages = [await stack.enter_async_context(watching(story.pk, after=cursor)) for cursor in cursors]
        counting = await stack.enter_async_context(watching(story.pk, after=10, query="&rows=0"))
        await units_of_work.write(story.says, "one more")
        await all_hear([*pages, counting], 61)
        for page, cursor in zip(pages, cursors, strict=True):
            assert page.seqs() == list(range(cursor + 1, 62))
        assert counting.seqs() == []
        assert sum(message["count"] for message in counting.of("events")) == 51


async def test_slow_socket_delays_nobody_and_misses_nothing(story):
    gate, caught_up = asyncio.Event(), asyncio.Event()
    messages: list[Message] = []

    async def send_slowly(text: str) -> None:
        await gate.wait()
        messages.append(json.loads(text))
        if messages[-1].get("cursor") == 100:
            caught_up.set()

    lagging = asyncio.create_task(SessionTail(story.pk, 0, send_slowly).run())
    async with many(story.pk, sockets=3) as pages:
        for seq in range(1, 101):
            await units_of_work.write(story.says, f"event {seq}")
        await all_hear(pages, 100)
        assert messages == []
        gate.set()
        async with asyncio.timeout(PATIENCE_S):
            await caught_up.wait()
    lagging.cancel()
    batches = [message for message in messages if message["type"] == "events"]
    assert [seq for message in batches for seq in seqs_in(message["html"])] == list(range(1, 101))
    assert len(batches) < 10, "what it has not seen comes in windows, and not one by one"


async def test_reconnecting_sockets_get_each_event_once_during_foreign_writes(story):
    chance = random.Random(11)
    events = 200

    async def come_and_go() -> list[int]:
        seqs: list[int] = []
        while len(seqs) < events:
            async with watching(story.pk, after=seqs[-1] if seqs else 0) as page:
                for _ in range(chance.randrange(1, 12)):
                    message = await page.next()
                    assert message["type"] != "reset"
                    seqs += seqs_in(message.get("html", "")) if message["type"] == "events" else []
                    if len(seqs) >= events:
                        break
        return seqs

    async with foreign_writer("s1", events=events, pause=0.004):
        seqs = await asyncio.gather(*(come_and_go() for _ in range(8)))
    assert all(item == list(range(1, events + 1)) for item in seqs)


async def test_failing_query_tells_all_to_retry_and_recovers(story, monkeypatch):
    read = snapshot.read_snapshot
    async with many(story.pk, sockets=3) as pages:
        await asyncio.gather(*(page.until(lambda message: message["type"] == "run") for page in pages))

        def fail(session_pk):
            raise RuntimeError("the disk is on fire")

        monkeypatch.setattr(snapshot, "read_snapshot", fail)
        for page in pages:
            frame = await page.socket.receive_output(timeout=PATIENCE_S)
            while frame["type"] == "websocket.send":
                frame = await page.socket.receive_output(timeout=PATIENCE_S)
            assert frame["code"] == 1011
        monkeypatch.setattr(snapshot, "read_snapshot", read)
        async with watching(story.pk) as page:
            await units_of_work.write(story.says, "one")
            await page.until_event(1)


@pytest.mark.soak
async def test_500_real_sockets_with_one_stalled_get_every_event_once(story):
    events = 200

    async def seqs_of(socket: ClientConnection) -> list[int]:
        seqs: list[int] = []
        while len(seqs) < events:
            message = json.loads(await socket.recv())
            seqs += seqs_in(message["html"]) if message["type"] == "events" else []
        return seqs

    async with serve(application) as address, AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(
                connect(
                    f"ws://{address}/ws/sessions/{story.pk}/?after=0", origin=f"http://{address}", proxy=None
                )
            )
            for _ in range(500)
        ]
        async with asyncio.timeout(5 * PATIENCE_S), foreign_writer("s1", events=events, pause=0.01):
            stuck, *reading = opened
            received_seqs = await asyncio.gather(*map(seqs_of, reading))
        assert all(seqs == list(range(1, events + 1)) for seqs in received_seqs)
        async with asyncio.timeout(PATIENCE_S):
            assert await seqs_of(stuck) == list(range(1, events + 1))
