"""Edited messages in a fork, and resumed invocations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import AsyncClient

from sessions_app.agents import cards
from sessions_app.paths import session_url
from sessions_app.runs import lifecycle, runtime_client
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.store.state.history import state_at
from tests.console.fake_runtimes import RecordingRuntime
from tests.pages.html import parse
from tests.timeline.story import Story

PICTURE = {"inlineData": {"mimeType": "image/png", "data": "QUFB", "displayName": "a.png"}}


@pytest.fixture
def story(transactional_db: None) -> Iterator[Story]:
    new_story = Story(initial={"city": "Paris", "user:name": "Ann"})
    new_story.asks("Weather?")
    new_story.says("Sunny.", delta={"city": "Rome"})
    new_story.add({"text": "And tomorrow?"}, PICTURE, author="user", delta={"day": 2})
    new_story.says("Rain.")
    runtime_client.register(RecordingRuntime())
    yield new_story
    runtime_client.register(None)
    units_of_work.close_pools()


async def edit(story: Story, seq: int, **fields: str) -> Any:
    return await AsyncClient().post(f"/runs/edit/{story.pk}/{seq}/", fields)


async def newest() -> tuple[AgentSession, dict[str, Any]]:
    """Return the newest session, and what its run was asked."""

    def read() -> tuple[AgentSession, dict[str, Any]]:
        session = AgentSession.objects.latest("pk")
        return session, json.loads(Run.objects.get(session=session).request)

    return await units_of_work.read(read)


async def test_rerun_form_shows_message_and_consequences(story):
    page = parse((await AsyncClient().get(f"/runs/edit/{story.pk}/3/")).content)
    assert page.one("textarea", name="message").text.strip() == "And tomorrow?"
    assert json.loads(page.one("textarea", name="state_delta").text) == {"day": 2}
    text = page.one("form", css="dialog-body").text
    assert "with the 2 events before this message" in text
    assert "The 2 events from this message on are not copied" in text
    assert "1 file" in text


async def test_edited_message_follows_the_events_before_it(story):
    response = await edit(story, 3, message="And on Monday?", state_delta='{"day": 5}', title="Monday")
    session, run_row = await newest()
    assert response["Location"] == f"/sessions/weather/ann/{session.session_id}/"
    assert (session.title, session.last_seq, session.forked_seq) == ("Monday", 2, 2)
    assert run_row["new_message"]["parts"] == [{"text": "And on Monday?"}, PICTURE]
    assert run_row["state_delta"] == {"day": 5}
    assert await units_of_work.read(lambda: Event.objects.filter(session_id=story.pk).count()) == 4


async def test_edited_first_message_starts_from_the_initial_state(story):
    assert (await edit(story, 1, message="Snow?")).status_code == 302
    session, run_row = await newest()
    assert (session.last_seq, run_row["new_message"]["parts"]) == (0, [{"text": "Snow?"}])
    state = await units_of_work.read(lambda: state_at(session).merge_scopes())
    assert state == {"city": "Paris", "user:name": "Ann"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"message": " "}, "empty"),
        ({"message": "x", "state_delta": "{"}, "Line 1, column 2"),
        ({"message": "x", "title": "t" * 600}, "at most"),
    ],
)
async def test_invalid_rerun_is_refused_and_creates_nothing(story, fields, words):
    response = await edit(story, 1, **fields)
    assert response.status_code == 422
    assert words in response.content.decode()
    assert await units_of_work.read(AgentSession.objects.count) == 1


@pytest.mark.parametrize(("seq", "status"), [(2, 400), (9, 404)])
async def test_only_user_messages_can_be_edited(story, seq, status):
    assert (await edit(story, seq, message="x")).status_code == status


async def test_an_eval_attempt_stays_as_it_ran(story):
    attempt = await units_of_work.write(lambda: Story(realm="eval/r1/c1/1"))
    await units_of_work.write(lambda: attempt.asks("hi"))
    assert (await edit(attempt, 1, message="x")).status_code == 400


async def create_ended_run(story: Story, status: str, invocation: str = "i1") -> Run:
    """Return a run that ended."""
    run = await units_of_work.write(
        lifecycle.create_run, story.pk, {"new_message": {"parts": [{"text": "Weather?"}]}}
    )
    await units_of_work.write(lambda: lifecycle.finish(run.pk, status, invocation_id=invocation))
    return run


async def page_of(story: Story) -> str:
    return (await AsyncClient().get(f"/sessions/id/{story.pk}/")).content.decode()


async def test_failed_run_offers_retry_and_resume_if_resumable(story):
    run = await create_ended_run(story, Run.Status.CANCELLED)
    assert f"/runs/{run.pk}/again/" in await page_of(story)
    assert f"/runs/{run.pk}/resume/" not in await page_of(story)
    await units_of_work.write(lambda: cards.save_loaded("weather", "v1", {"app": {"resumable": True}}))
    assert f"/runs/{run.pk}/resume/" in await page_of(story)


async def test_invocation_is_resumed(story):
    run = await create_ended_run(story, Run.Status.FAILED)
    page = parse((await AsyncClient().get(f"/runs/{run.pk}/resume/")).content)
    assert "4 events" in page.one("form", css="dialog-body").text
    assert (await AsyncClient().post(f"/runs/{run.pk}/resume/")).status_code == 302
    requests = await units_of_work.read(
        lambda: [json.loads(each.request) for each in Run.objects.order_by("created_at")]
    )
    assert requests[-1] == {"invocation_id": "i1", "streaming": True}


ENDED = (Run.Status.DONE, Run.Status.WAITING)


@pytest.mark.parametrize("status", [*ENDED, Run.Status.QUEUED])
async def test_invocation_resumed_by_later_run_names_that_run(story, status):
    await units_of_work.write(lambda: cards.save_loaded("weather", "v1", {"app": {"resumable": True}}))
    run = await create_ended_run(story, Run.Status.CRASHED)
    if status in ENDED:
        later = await create_ended_run(story, status)
    else:
        later = await units_of_work.write(lifecycle.create_run, story.pk, {"invocation_id": "i1"})
    count = await units_of_work.read(Run.objects.count)

    page = await AsyncClient().get(f"/runs/{run.pk}/resume/")
    refused = await AsyncClient().post(f"/runs/{run.pk}/resume/")

    assert f"/runs/{run.pk}/resume/" not in await page_of(story)
    assert (page.status_code, refused.status_code) == (200, 422)
    for answer in (page, refused):
        form = parse(answer.content).one("form", css="dialog-body")
        assert "There is nothing to resume: a later run continued" in form.text
        link = form.one("div", css="notice").one("a").attrs["href"]
        assert link == session_url(await units_of_work.read(lambda: story.session)) + (
            "?seq=4" if status in ENDED else ""
        )
        assert not form.all("button")
    assert await units_of_work.read(Run.objects.count) == count
    assert (await units_of_work.read(lifecycle.find_unresumable_run, story.pk, "i1")).pk == later.pk


async def test_invocation_with_failed_later_run_is_resumable(story):
    run, _ = (
        await create_ended_run(story, Run.Status.CRASHED),
        await create_ended_run(story, Run.Status.FAILED),
    )
    assert (await AsyncClient().post(f"/runs/{run.pk}/resume/")).status_code == 302
    again = parse((await AsyncClient().post(f"/runs/{run.pk}/resume/")).content)
    assert "continued this invocation and is queued" in again.one("form", css="dialog-body").text


async def test_a_program_that_resumes_a_finished_invocation_is_refused(story):
    later = await create_ended_run(story, Run.Status.DONE)
    body = {"session": story.pk, "invocation_id": "i1"}
    refused = await AsyncClient().post("/api/v1/runs", json.dumps(body), content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (409, "invocation_finished")
    assert later.pk in refused.json()["detail"]


async def test_a_run_without_an_invocation_cannot_go_on(story):
    run = await units_of_work.write(lifecycle.create_run, story.pk, {})
    assert (await AsyncClient().get(f"/runs/{run.pk}/resume/")).status_code == 400
    assert (await AsyncClient().get("/runs/nobody/resume/")).status_code == 404


async def test_run_with_too_many_calls_explains_the_limit(story):
    run = await create_ended_run(story, Run.Status.FAILED)
    error = {"error_type": "LlmCallsLimitExceededError", "error": "Max number of llm calls"}
    await units_of_work.write(lambda: Run.objects.filter(pk=run.pk).update(**error))
    texts = [each.text for each in parse(await page_of(story)).all("p", css="diagnosis")]
    assert len(texts) == 1, "once: where the run stands in the timeline"
    assert all("max_llm_calls" in text for text in texts)
