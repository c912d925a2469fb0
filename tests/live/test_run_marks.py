"""Status of runs on an open page: by the socket, and in a real browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sessions_app.delivery.failure import Failure
from sessions_app.runs import lifecycle
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Run
from tests.live.conftest import watching
from tests.live.windows import Line, event
from tests.timeline.story import Story

pytestmark = pytest.mark.soak

Status = Run.Status


def begin(story: Story) -> Run:
    run = lifecycle.create_run(story.pk, {"new_message": {"parts": [{"text": "Break it"}]}})
    assert lifecycle.claim(run.pk, None, "v1")
    return run


def speak(story: Story, run: Run, text: str = "on it") -> None:
    """Let a run's agent speak, in an invocation of its own."""
    story.invocation = f"i-{run.pk}"
    story.says(text)
    lifecycle.record_invocation(run.pk, story.invocation)


def places(page: Page) -> list[str]:
    """Return the events, and the runs without any, in the order they stand in."""
    return page.evaluate(
        "[...document.querySelectorAll('#events :is([data-seq], [data-run-alone])')]"
        ".map(element => element.dataset.seq ?? element.dataset.runAlone)"
    )


async def test_run_is_sent_when_created_and_when_ended(story):
    run = await units_of_work.write(begin, story)
    async with watching(story.pk) as page:
        await units_of_work.write(speak, story, run)
        running = await page.until(lambda m: m["type"] == "marks" and f"i-{run.pk}" in m["html"])
        assert 'data-status="running"' in running["html"]
        await units_of_work.write(
            lambda: lifecycle.finish(run.pk, Status.FAILED, Failure("", "no <b>luck</b>", "line 7"))
        )
        failed = await page.until(lambda m: m["type"] == "marks" and "failed" in m["html"])
        assert "no &lt;b&gt;luck&lt;/b&gt;" in failed["html"]
        assert "line 7" in failed["html"]


async def test_run_is_sent_once(story):
    run = await units_of_work.write(begin, story)
    await units_of_work.write(lambda: lifecycle.finish(run.pk, Status.CRASHED))
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "marks")
        await units_of_work.write(story.says, "one")
        await units_of_work.write(story.says, "two")
        await page.until_event(2)
        assert len(page.of("marks")) == 1


@pytest.mark.browser
@pytest.mark.usefixtures("store")
class TestInABrowser:
    def test_a_run_that_crashes_is_marked_beside_its_events(self, open_page: Callable[..., Page], story):
        page = open_page(story)
        run = begin(story)
        speak(story, run)
        state = page.locator(f".invocation[data-invocation='i-{run.pk}'] .run-state")
        expect(state).to_contain_text("Running")
        lifecycle.finish(run.pk, Status.CRASHED, Failure("RuntimeCrashed", "Signal 9."))
        expect(state).to_contain_text("Crashed")
        expect(state).to_contain_text("Signal 9.")
        expect(state).to_have_count(1)

        newer = begin(story)
        speak(story, newer, "again")
        lifecycle.finish(newer.pk, Status.DONE)
        expect(page.locator(f".invocation[data-invocation='i-{newer.pk}']")).to_be_visible()
        expect(page.locator("#runs .run")).to_have_count(0)
        expect(page.locator(f".invocation[data-invocation='i-{newer.pk}'] .run-state")).to_have_count(0)
        expect(state).to_contain_text("Crashed")

    def test_a_run_that_leaves_no_event_shows_up_where_it_was(self, open_page: Callable[..., Page], story):
        page = open_page(story)
        crashed_run = begin(story)
        lifecycle.finish(crashed_run.pk, Status.CRASHED, Failure("", "Signal 9."))
        alone = page.locator(".run-alone")
        expect(alone).to_contain_text("Break it")
        expect(alone).to_contain_text("Crashed")
        expect(page.locator("#no-events")).to_have_count(0)

        run = begin(story)
        speak(story, run)
        expect(event(page, 1)).to_be_visible()
        lifecycle.finish(run.pk, Status.DONE)
        cancelled = lifecycle.create_run(story.pk, {"new_message": {"parts": [{"text": "Never mind"}]}})
        lifecycle.end_queued(cancelled.pk, Status.CANCELLED)
        expect(alone).to_have_count(2)
        live = places(page)
        assert live == [crashed_run.pk, "1", cancelled.pk]
        page.reload()
        expect(page.locator("[data-live=live]")).to_be_visible()
        expect(alone).to_have_count(2)
        assert places(page) == live

    def test_marks_are_there_once_when_the_line_comes_back(self, open_page: Callable[..., Page], story):
        line = Line()
        page = open_page(story, line=line)
        run = begin(story)
        speak(story, run)
        expect(page.locator(".run-state")).to_have_count(1)
        line.cut()
        lifecycle.finish(run.pk, Status.CANCELLED)
        line.mend()
        expect(page.locator(".run-state")).to_contain_text("Cancelled")
        expect(page.locator(".run-state")).to_have_count(1)

    def test_an_answered_question_waits_no_more(self, open_page: Callable[..., Page], story):
        page = open_page(story)
        run = begin(story)
        story.calls("pay", "c1", waiting=True)
        lifecycle.finish(run.pk, Status.WAITING, invocation_id=story.invocation)
        expect(page.locator(".run-state")).to_contain_text("waiting")
        story.invocation = "i2"
        story.answers("pay", "c1", author="user")
        expect(page.locator(".run-state")).to_have_count(0)
        page.reload()
        expect(page.locator("[data-live=live]")).to_be_visible()
        expect(page.locator(".run-state")).to_have_count(0)

    def test_an_error_shows_its_traceback_once_its_run_ended(self, open_page: Callable[..., Page], story):
        page = open_page(story)
        run = begin(story)
        speak(story, run)
        story.add(errorCode="ValueError", errorMessage="no luck")
        expect(event(page, 2)).to_contain_text("no luck")
        event(page, 2).locator(".event-seq").click()
        lifecycle.finish(run.pk, Status.FAILED, Failure("", "no luck", "File x, line 7"))
        error = event(page, 2).locator(".event-error")
        expect(error.locator("pre")).to_have_text("File x, line 7")
        expect(page.locator("#detail .event-error pre")).to_have_text("File x, line 7")
        expect(page.locator("[data-status=failed].run-state")).to_be_visible()
        expect(page.locator(".run-state details")).to_have_count(0)
        page.reload()
        expect(page.locator("[data-live=live]")).to_be_visible()
        expect(error.locator("pre")).to_have_text("File x, line 7")
        expect(page.locator("[data-status=failed].run-state")).to_be_visible()
        expect(page.locator(".run-state details")).to_have_count(0)

    def test_an_error_shown_again_is_still_marked_as_a_hit(self, open_page: Callable[..., Page], story):
        run = begin(story)
        speak(story, run)
        story.add(errorCode="ValueError", errorMessage="no luck")
        page = open_page(story, "?q=luck")
        hit = page.locator("#events [data-seq='2'].is-hit")
        expect(hit).to_be_visible()
        lifecycle.finish(run.pk, Status.FAILED, Failure("", "no luck", "File x, line 7"))
        expect(hit.locator("pre")).to_have_text("File x, line 7")
