"""Change notifications are received from this process, from others, and after a lost one."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest
from django.db import connection

from sessions_app.store.database import change_listener, units_of_work
from sessions_app.store.database.change_listener import subscribe
from tests.live.conftest import foreign_writer
from tests.patience import PATIENCE_S

listen_only = partial(subscribe, recheck_s=10 * PATIENCE_S)
"""Subscribe without the periodic wake-up, so that only a notification wakes the subscriber."""


@pytest.fixture
def deaf(monkeypatch):
    """Make the bell deaf, so that only the ring's own look is left."""

    async def hear_nothing(self):
        await asyncio.Event().wait()

    monkeypatch.setattr(change_listener._Notifier, "_watch_store", hear_nothing)


async def wait_for_first_notification(ring):
    """Wait for the ring that tells that the bell has begun to listen."""
    await asyncio.wait_for(ring.wait(), PATIENCE_S)


async def test_a_commit_of_this_process_rings(story):
    async with listen_only() as ring:
        await wait_for_first_notification(ring)
        await units_of_work.write(story.says, "hello")
        await asyncio.wait_for(ring.wait(), PATIENCE_S)


async def test_a_commit_of_another_process_rings(story):
    async with listen_only() as ring:
        await wait_for_first_notification(ring)
        async with foreign_writer("s1", events=1) as writer:
            await asyncio.wait_for(ring.wait(), PATIENCE_S)
            assert await asyncio.wait_for(writer.wait(), PATIENCE_S) == 0


async def test_nothing_rings_when_nothing_was_committed(story):
    async with listen_only() as ring:
        await wait_for_first_notification(ring)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ring.wait(), 0.3)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL notifies")
async def test_store_is_polled_as_often_as_the_most_urgent_subscriber_needs(story):
    async with listen_only(poll_s=10 * PATIENCE_S) as background:
        await wait_for_first_notification(background)
        await units_of_work.write(story.says, "hello")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(background.wait(), 0.3)
        async with listen_only():
            await asyncio.wait_for(background.wait(), PATIENCE_S)


async def test_notifications_while_busy_are_merged_into_one():
    ring = change_listener.Subscription(10 * PATIENCE_S)
    for _ in range(5):
        ring.notify()
    await asyncio.wait_for(ring.wait(), PATIENCE_S)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ring.wait(), 0.3)


async def test_every_subscriber_is_notified(story):
    async with listen_only() as first, listen_only() as other:
        await wait_for_first_notification(first)
        await wait_for_first_notification(other)
        await units_of_work.write(story.says, "hello")
        await asyncio.wait_for(asyncio.gather(first.wait(), other.wait()), PATIENCE_S)


async def test_subscriber_wakes_periodically_without_notifications(story, deaf):
    async with subscribe() as ring:
        started = time.monotonic()
        await asyncio.wait_for(ring.wait(), PATIENCE_S)
        assert time.monotonic() - started >= change_listener.RECHECK_S * 0.9


async def test_failing_watch_is_logged_and_restarted(story, monkeypatch, caplog):
    notified = asyncio.Event()

    async def break_once(self):
        if "are interrupted" not in caplog.text:
            raise OSError("unplugged")
        notified.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(change_listener._Notifier, "_watch_store", break_once)
    async with listen_only():
        await asyncio.wait_for(notified.wait(), PATIENCE_S)
    assert "unplugged" in caplog.text


async def test_store_is_not_watched_without_subscribers(story):
    async with subscribe() as ring:
        await wait_for_first_notification(ring)
        assert watches()
        async with subscribe():
            pass
        assert watches()
    assert not watches()


def watches() -> list[asyncio.Task]:
    return [
        task for task in asyncio.all_tasks() if task.get_name() == "devui-change-notifier" and not task.done()
    ]
