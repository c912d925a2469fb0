"""The console on the session page: messages, answers, cancellation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import AsyncClient
from django.urls import reverse

from sessions_app.agents import cards
from sessions_app.console.questions import CONFIRMATION
from sessions_app.runs import lifecycle, runtime_client
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import RuntimeUnavailable
from sessions_app.store.models import Run
from tests.console.fake_runtimes import RecordingRuntime
from tests.pages.html import Element, parse
from tests.patience import PATIENCE_S
from tests.timeline.story import Story


@pytest.fixture
def story(transactional_db: None) -> Iterator[Story]:
    yield Story()
    runtime_client.register(None)
    units_of_work.close_pools()


@pytest.fixture
def runtime() -> RecordingRuntime:
    recording_runtime = RecordingRuntime()
    runtime_client.register(recording_runtime)
    return recording_runtime


async def send(story: Story, *, htmx: bool = False, **fields: str) -> Any:
    headers = {"HX-Request": "true"} if htmx else {}
    address = reverse("session-run", kwargs={"pk": story.pk})
    return await AsyncClient().post(address, fields, headers=headers)


async def runs() -> list[Run]:
    return await units_of_work.read(lambda: list(Run.objects.order_by("created_at")))


async def eventually(status: str) -> Run:
    """Return the newest run once it has a status."""
    async with asyncio.timeout(PATIENCE_S):
        while (run := (await runs())[-1]).status != status:  # noqa: ASYNC110 - only the store knows
            await asyncio.sleep(0.02)
    return run


def message(run: Run) -> dict[str, Any]:
    return json.loads(run.request)["new_message"]


async def test_a_message_in_a_realm_leads_back_to_its_own_session(story, runtime):
    fork = await units_of_work.write(lambda: Story(realm="fork/1"))
    response = await send(fork, message="Weather?")
    assert response.headers["Location"] == f"/sessions/id/{fork.pk}/"
    await asyncio.wait_for(runtime.received.wait(), PATIENCE_S)


async def test_a_message_is_queued_and_handed_to_the_runtime(story, runtime):
    response = await send(story, message="  Weather?\n", streaming="1", has_streaming="1")
    assert response.status_code == 303
    assert response.headers["Location"] == "/sessions/weather/ann/s1/"
    [run] = await runs()
    assert message(run) == {"role": "user", "parts": [{"text": "  Weather?\n"}]}
    assert json.loads(run.request)["streaming"] is True
    assert run.source == "console"
    await asyncio.wait_for(runtime.received.wait(), PATIENCE_S)
    assert runtime.requests == [("start", run.pk)]


async def test_the_page_stays_when_htmx_sends(story, runtime):
    response = await send(story, htmx=True, message="hi")
    assert response.status_code == 204


async def test_streaming_can_be_switched_off(story, runtime):
    await send(story, message="hi", has_streaming="1")
    [run] = await runs()
    assert json.loads(run.request)["streaming"] is False


@pytest.mark.parametrize("text", ["", "   ", "\n"])
async def test_an_empty_message_is_refused(story, runtime, text):
    response = await send(story, message=text)
    assert response.status_code == 422
    assert await runs() == []


async def test_deleted_session_is_named(story, runtime):
    response = await AsyncClient().post(reverse("session-run", kwargs={"pk": 4711}), {"message": "hi"})
    assert response.status_code == 404
    assert "4711" in response.content.decode()


async def test_an_attempt_of_an_eval_takes_no_message(story, runtime):
    attempt = await units_of_work.write(lambda: Story(realm="eval/r1/c1/1"))
    assert (await send(attempt, message="hi")).status_code == 400
    assert await runs() == []


async def test_reading_an_address_that_is_for_sending_is_refused(story):
    response = await AsyncClient().get(reverse("session-run", kwargs={"pk": story.pk}))
    assert response.status_code == 405


async def test_message_without_runtime_is_refused_with_reason(story):
    refused = await send(story, message="hi")
    assert refused.status_code == 503
    page = parse(refused.content)
    assert page.one("textarea", id="message").text == "hi"
    assert "manage.py web" in page.one("ul", "errorlist").text
    assert await runs() == []


async def test_run_refused_by_its_process_says_why(story, runtime):
    runtime.error = RuntimeUnavailable("The process has died.", hint="Look at its log.")
    await send(story, message="hi")
    run = await eventually(Run.Status.FAILED)
    assert (run.error_type, run.error) == ("RuntimeUnavailable", "The process has died. Look at its log.")


@pytest.mark.parametrize("htmx", [False, True])
async def test_message_to_an_app_without_an_agent_is_refused(story, runtime, htmx):
    gone_story = await units_of_work.write(lambda: Story(app="imported"))
    refused = await send(gone_story, message="hi", htmx=htmx)
    assert refused.status_code == (422 if htmx else 404)
    assert "App 'imported' cannot be run" in parse(refused.content).one("ul", "errorlist").text
    await units_of_work.write(lambda: gone_story.calls("ask", "c1", waiting=True))
    answered = await send(gone_story, call_id="c1", response="yes", htmx=htmx)
    assert answered.status_code == (422 if htmx else 404)
    assert "App 'imported' cannot be run" in parse(answered.content).text
    assert (await runs(), runtime.requests) == ([], [])


async def test_message_to_a_broken_agent_is_refused_until_it_loads(story, runtime):
    error = {"type": "ImportError", "message": "no rain", "file": "/a/agent.py", "line": 3}
    await units_of_work.write(cards.save_failure, "weather", "v1", error)
    refused = await send(story, message="hi")
    assert refused.status_code == 500
    text = parse(refused.content).one("ul", "errorlist").text
    assert "Agent 'weather' could not be loaded: ImportError: no rain (/a/agent.py:3)" in text
    assert await runs() == []
    await units_of_work.write(cards.save_loaded, "weather", "v2", {})
    assert (await send(story, message="hi")).status_code == 303
    assert len(await runs()) == 1


def test_page_of_an_app_that_cannot_be_run_has_no_composer(story, runtime, get):
    assert get(f"/sessions/id/{story.pk}/").all("form", "console")
    gone_story = Story(app="imported")
    page = get(f"/sessions/id/{gone_story.pk}/")
    assert not page.all("form", "console")
    assert "App 'imported' cannot be run" in page.one("div", "console-unavailable").text
    assert "Send a message" not in page.one("main").text
    cards.save_failure("weather", "v1", {"type": "ImportError", "message": "no rain"})
    broken = get(f"/sessions/id/{story.pk}/").one("div", "console-unavailable")
    assert "ImportError: no rain" in broken.text
    assert [link.text for link in broken.all("a")] == ["About the agent", "Load it again"]
    assert "could not be loaded" in get(reverse("session-message", kwargs={"pk": story.pk}), status=500).text


async def test_undeliverable_run_fails_and_is_logged(story, runtime, caplog):
    runtime.error = ValueError("wires crossed")
    await send(story, message="hi")
    run = await eventually(Run.Status.FAILED)
    assert run.error_type == "ValueError"
    assert "wires crossed" in caplog.text


async def test_an_open_call_is_answered_by_its_id_and_name(story, runtime):
    await units_of_work.write(lambda: story.calls("request_leave", "c1", waiting=True))
    await send(story, call_id="c1", response='{"status": "approved"}')
    [run] = await runs()
    assert message(run)["parts"] == [
        {"functionResponse": {"id": "c1", "name": "request_leave", "response": {"status": "approved"}}}
    ]
    assert json.loads(run.request)["streaming"] is True


@pytest.mark.parametrize(
    ("text", "body"), [("tomorrow", "tomorrow"), ("[1, 2]", [1, 2]), ("7", "7"), ("東京", "東京")]
)
async def test_an_answer_that_is_no_object_is_sent_as_a_result(story, runtime, text, body):
    await units_of_work.write(lambda: story.calls("adk_request_input", "c1", waiting=True))
    await send(story, call_id="c1", response=text)
    [run] = await runs()
    assert message(run)["parts"][0]["functionResponse"]["response"] == {"result": body}


@pytest.mark.parametrize("text", ["", "{broken", "[" * 100_000])
async def test_invalid_answer_is_refused(story, runtime, text):
    await units_of_work.write(lambda: story.calls("request_leave", "c1", waiting=True))
    assert (await send(story, call_id="c1", response=text)).status_code == 400
    assert await runs() == []


@pytest.mark.parametrize(("pressed", "confirmed"), [("yes", True), ("no", False)])
async def test_a_confirmation_is_answered_yes_or_no_with_its_payload(story, runtime, pressed, confirmed):
    original = {"id": "c1", "name": "pay", "args": {}}
    await units_of_work.write(
        lambda: story.calls(CONFIRMATION, "c2", waiting=True, originalFunctionCall=original)
    )
    await send(story, call_id="c2", confirmed=pressed, payload='{"limit": 3}')
    [run] = await runs()
    response = message(run)["parts"][0]["functionResponse"]
    assert (response["id"], response["name"]) == ("c2", CONFIRMATION)
    assert response["response"] == {"confirmed": confirmed, "payload": {"limit": 3}}


async def test_a_confirmation_without_yes_or_no_is_refused(story, runtime):
    original = {"id": "c1", "name": "pay", "args": {}}
    await units_of_work.write(
        lambda: story.calls(CONFIRMATION, "c2", waiting=True, originalFunctionCall=original)
    )
    assert (await send(story, call_id="c2")).status_code == 400


async def test_a_call_is_answered_once(story, runtime):
    await units_of_work.write(lambda: story.calls("request_leave", "c1", waiting=True))
    await units_of_work.write(lambda: story.answers("request_leave", "c1", author="user"))
    response = await send(story, call_id="c1", response="{}")
    assert response.status_code == 404
    assert "answered already" in response.content.decode()


async def test_call_is_answered_once_before_its_run_starts(story, runtime):
    await units_of_work.write(lambda: story.calls("request_leave", "c1", waiting=True))
    await units_of_work.write(lambda: story.calls("request_leave", "c2", waiting=True))
    await send(story, call_id="c1", response="{}")
    assert (await send(story, call_id="c1", response="{}")).status_code == 404
    await send(story, call_id="c2", response="{}")
    first, _ = await runs()
    await units_of_work.write(lambda: Run.objects.filter(pk=first.pk).update(status="crashed"))
    await send(story, call_id="c1", response="{}")
    assert len(await runs()) == 3


async def cancel(run_id: str) -> Any:
    return await AsyncClient().post(reverse("run-cancel", kwargs={"run_id": run_id}))


async def test_an_active_run_is_cancelled_by_its_runtime(story, runtime):
    run = await units_of_work.write(lambda: lifecycle.create_run(story.pk, {}))
    response = await cancel(run.pk)
    assert response.status_code == 303
    await asyncio.wait_for(runtime.received.wait(), PATIENCE_S)
    assert runtime.requests == [("cancel", run.pk)]
    [stored] = await runs()
    assert stored.cancel_requested_at


async def test_queued_run_unknown_to_any_runtime_ends_when_cancelled(story, runtime):
    runtime.error = RuntimeUnavailable("gone", hint="")
    run = await units_of_work.write(lambda: lifecycle.create_run(story.pk, {}))
    await cancel(run.pk)
    await eventually(Run.Status.CANCELLED)


async def test_a_run_that_has_ended_stays_as_it_ended(story, runtime):
    run = await units_of_work.write(lambda: lifecycle.create_run(story.pk, {}))
    await units_of_work.write(lambda: lifecycle.finish(run.pk, Run.Status.DONE))
    assert (await cancel(run.pk)).status_code == 303
    [stored] = await runs()
    assert (stored.status, stored.cancel_requested_at, runtime.requests) == (Run.Status.DONE, None, [])


async def test_cancelling_a_missing_run_is_reported(story):
    assert (await cancel("nobody")).status_code == 404


TWICE = "0123456789abcdef" * 2


@pytest.mark.parametrize("htmx", [False, True])
async def test_a_message_sent_twice_by_a_form_is_queued_once(story, runtime, htmx):
    answers = [await send(story, message="hi", send_id=TWICE, htmx=htmx) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [204 if htmx else 303] * 2
    [run] = await runs()
    assert run.pk == TWICE
    await asyncio.wait_for(runtime.received.wait(), PATIENCE_S)
    assert runtime.requests == [("start", TWICE)]


async def test_a_message_sent_twice_at_once_is_queued_once(story, runtime):
    await asyncio.gather(*(send(story, message="hi", send_id=TWICE) for _ in range(4)))
    assert len(await runs()) == 1


async def test_another_message_of_the_same_form_is_queued(story, runtime):
    for text in ("hi", "there"):
        await send(story, message=text, send_id=TWICE)
    assert [message(run)["parts"] for run in await runs()] == [[{"text": "hi"}], [{"text": "there"}]]


async def test_message_of_failed_run_can_be_sent_again(story, runtime):
    await send(story, message="hi", send_id=TWICE)
    await units_of_work.write(lifecycle.finish, TWICE, Run.Status.FAILED)
    await send(story, message="hi", send_id=TWICE)
    assert [run.status for run in await runs()] == ["failed", "queued"]


@pytest.mark.parametrize("send_id", ["", "x", "A" * 32, "1" * 33, "../../x"])
async def test_invalid_form_id_names_no_run(story, runtime, send_id):
    for _ in range(2):
        assert (await send(story, message="hi", send_id=send_id)).status_code == 303
    assert len({run.pk for run in await runs()}) == 2


async def test_a_form_does_not_take_the_run_of_another_session(story, runtime):
    other = await units_of_work.write(lambda: Story("s2"))
    await send(other, message="hi", send_id=TWICE)
    await send(story, message="hi", send_id=TWICE)
    assert [run.session_id for run in await runs()] == [other.pk, story.pk]


async def test_answer_sent_twice_is_given_once(story, runtime):
    await units_of_work.write(lambda: story.calls("ask", "c1", waiting=True))
    for _ in range(2):
        response = await send(story, call_id="c1", response="yes", send_id=TWICE)
        assert response.status_code == 303
    assert [run.pk for run in await runs()] == [TWICE]


async def test_concurrent_answers_of_two_windows_give_one(story, runtime):
    await units_of_work.write(lambda: story.calls("ask", "c1", waiting=True))
    answers = await asyncio.gather(
        *(send(story, call_id="c1", response=text, send_id=text * 32) for text in ("a", "b", "c"))
    )
    assert sorted(answer.status_code for answer in answers) == [303, 404, 404]
    assert len(await runs()) == 1


async def test_answer_being_sent_is_shown_as_answered(story, runtime, async_client):
    await units_of_work.write(lambda: story.calls("ask", "c1", waiting=True))

    async def form() -> Element:
        return parse((await async_client.get(f"/sessions/id/{story.pk}/")).content).one("form", "question")

    assert "disabled" not in (await form()).one("fieldset", "question-fields").attrs
    await send(story, call_id="c1", response="yes", send_id=TWICE)
    answered = await form()
    assert "disabled" in answered.one("fieldset", "question-fields").attrs
    assert answered.one("p", "question-state").text == "Answered. The agent continues."
    await units_of_work.write(lifecycle.finish, TWICE, Run.Status.FAILED)
    assert "disabled" not in (await form()).one("fieldset", "question-fields").attrs


def test_every_form_that_starts_a_run_names_it(story, get):
    runtime_client.register(RecordingRuntime())
    story.calls("ask", "c1", waiting=True)
    ids = [field.attrs["value"] for field in get(f"/sessions/id/{story.pk}/").all("input", name="send_id")]
    assert len(ids) == len(set(ids)) == 2
    assert all(len(send_id) == 32 for send_id in ids)
