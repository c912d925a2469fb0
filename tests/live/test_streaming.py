"""Streaming text reaches the page as it arrives, and is replaced by the event that contains it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from sessions_app.live import snapshot
from sessions_app.runs import job_queue, lifecycle, runtime_client
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import RuntimeUnavailable
from sessions_app.store.models import Run
from tests.live.conftest import watching
from tests.live.streaming_runtime import StreamingRuntime, create_claimed_run, is_pending
from tests.patience import PATIENCE_S


async def test_streamed_text_grows_and_is_replaced_by_its_event(story, runtime):
    await create_claimed_run(story)
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        runtime.publish_text("It is ")
        assert "It is" in (await page.until(is_pending))["html"]
        runtime.publish_text("**sunny**.")
        assert "<strong>sunny</strong>" in (await page.until(is_pending))["html"]

        runtime.publish_stored(1)
        await units_of_work.write(story.says, "It is **sunny**.")
        message = await page.until_event(1)
        assert "<strong>sunny</strong>" in message["html"]
        assert message["pending"] == ""


async def test_late_page_receives_the_text_so_far(story, runtime):
    await create_claimed_run(story)
    runtime.publish_text("Once upon ")
    runtime.publish_text("a time")
    async with watching(story.pk) as page:
        assert "Once upon a time" in (await page.until(is_pending))["html"]


async def test_fast_chunks_come_together(story, runtime):
    await create_claimed_run(story)
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        for number in range(200):
            runtime.publish_text(f"{number} ")
            await asyncio.sleep(0)
        await page.until(lambda message: is_pending(message) and "199" in message["html"])
        assert len(page.of("pending")) < 100, "not one for each of two hundred"


async def test_cut_off_text_disappears_at_the_end(story, runtime):
    run = await create_claimed_run(story)
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        runtime.publish_text("It is sun")
        await page.until(is_pending)
        await units_of_work.write(lifecycle.finish, run.pk, Run.Status.CANCELLED)
        runtime.log.publish("end", status="cancelled")
        await page.until(lambda message: is_pending(message) and not message["html"])


async def test_hostile_text_is_inert_while_it_streams(story, runtime):
    await create_claimed_run(story)
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        runtime.publish_text("<script>alert(1)</script> [x](javascript:alert(2))")
        html = (await page.until(is_pending))["html"]
        assert "<script" not in html
        assert 'href="javascript' not in html


async def test_events_come_without_a_runtime_to_ask(story):
    await create_claimed_run(story)
    async with watching(story.pk) as page:
        await units_of_work.write(story.says, "hello")
        await page.until_event(1)


async def test_a_stream_that_breaks_is_logged_and_events_go_on(story, caplog):
    class Broken(StreamingRuntime):
        async def client(self, app_name: str) -> StreamingRuntime:
            raise ValueError("wires crossed")

    runtime_client.register(Broken())
    await create_claimed_run(story)
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        await units_of_work.write(story.says, "hello")
        await page.until_event(1)
    assert "wires crossed" in caplog.text


async def test_a_runtime_that_cannot_be_reached_is_no_trouble(story, caplog):
    class Away(StreamingRuntime):
        async def client(self, app_name: str) -> StreamingRuntime:
            raise RuntimeUnavailable("gone", hint="")

    runtime_client.register(Away())
    await create_claimed_run(story)
    async with watching(story.pk) as page:
        await units_of_work.write(story.says, "hello")
        await page.until_event(1)
    assert "Traceback" not in caplog.text


@pytest.fixture
def workers(store) -> Iterator[None]:
    """This process leaves its runs to workers."""

    class Jobs:
        def defer_run(self, run_id: str, app_name: str, session_pk: int) -> None:
            """Write no job: the test is the worker."""

    job_queue.register(Jobs(), lambda run: "A worker is about to take it.")
    yield
    job_queue.register(None)


async def test_worker_streams_before_its_claim_is_read_here(workers, story, runtime):
    await units_of_work.write(lifecycle.create_run, story.pk, {})
    runtime.publish_text("It is ")
    async with watching(story.pk) as page:
        assert "It is" in (await page.until(is_pending))["html"]


async def test_queued_run_is_followed_once_a_worker_has_its_agent(workers, story, runtime):
    class Absent(StreamingRuntime):
        tries = 0

        async def client(self, app_name: str) -> StreamingRuntime:
            self.tries += 1
            raise RuntimeUnavailable("No worker has agent 'weather'.", hint="")

    absent = Absent()
    runtime_client.register(absent)
    run = await units_of_work.write(lifecycle.create_run, story.pk, {})
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        await units_of_work.write(story.says, "meanwhile")
        await page.until_event(1)
        assert absent.tries == 1, "not with each change of the store"
        runtime_client.register(runtime)
        await units_of_work.write(lifecycle.claim, run.pk, None, "v1")
        runtime.publish_text("It is ")
        assert "It is" in (await page.until(is_pending))["html"]


async def test_text_streams_while_an_event_is_rendered(story, runtime, monkeypatch):
    rendering, rendered = threading.Event(), threading.Event()
    read = snapshot.read_events_after

    def read_slowly(*args):
        rendering.set()
        rendered.wait(PATIENCE_S)
        return read(*args)

    await create_claimed_run(story)
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        monkeypatch.setattr(snapshot, "read_events_after", read_slowly)
        await units_of_work.write(story.says, "Weather?", author="user")
        await asyncio.to_thread(rendering.wait, PATIENCE_S)
        runtime.publish_text("It is ")
        assert "It is" in (await page.until(is_pending))["html"]
        rendered.set()
        assert "It is" in (await page.until_event(1))["pending"]
