"""Messages with files, state and a RunConfig, and validation errors at their fields."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient
from django.urls import reverse

from sessions_app.agents import cards
from sessions_app.console import message_draft
from sessions_app.console.questions import CONFIRMATION, INPUT
from sessions_app.runs import lifecycle, runtime_client
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event, Run
from sessions_app.store.redaction import REQUEST_CREDENTIAL
from tests.console.fake_runtimes import RuntimeWithConfigCheck
from tests.console.schemas import RUN_CONFIG_SCHEMA, TRIP_SCHEMA
from tests.pages.html import parse
from tests.timeline.story import Story

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
API_KEY = {"authScheme": {"type": "apiKey", "in": "header", "name": "X-Key"}, "credentialKey": "k"}


@pytest.fixture
def story(transactional_db: None) -> Iterator[Story]:
    cards.save_loaded("weather", "v1", {"name": "weather", "run_config": RUN_CONFIG_SCHEMA})
    yield Story()
    runtime_client.register(None)
    units_of_work.close_pools()


@pytest.fixture
def runtime() -> RuntimeWithConfigCheck:
    fake_runtime = RuntimeWithConfigCheck()
    runtime_client.register(fake_runtime)
    return fake_runtime


async def send(story: Story, *, htmx: bool = False, **fields: Any) -> Any:
    headers = {"HX-Request": "true"} if htmx else {}
    return await AsyncClient().post(reverse("session-run", kwargs={"pk": story.pk}), fields, headers=headers)


async def stored_requests() -> list[dict[str, Any]]:
    """Return the requests of all runs."""
    return await units_of_work.read(
        lambda: [json.loads(run.request) for run in Run.objects.order_by("created_at")]
    )


async def test_files_are_typed_by_content(story, runtime):
    files = [
        SimpleUploadedFile("a.txt", PNG, "text/plain"),
        SimpleUploadedFile("b.md", "# 東京".encode(), "text/markdown"),
        SimpleUploadedFile("c.bin", b"\0\1", "image/png"),
    ]
    assert (await send(story, message="look", files=files)).status_code == 303
    [request] = await stored_requests()
    text, *inline = request["new_message"]["parts"]
    assert text == {"text": "look"}
    assert [(part["inlineData"]["displayName"], part["inlineData"]["mimeType"]) for part in inline] == [
        ("a.txt", "image/png"),
        ("b.md", "text/markdown"),
        ("c.bin", "application/octet-stream"),
    ]
    assert base64.b64decode(inline[0]["inlineData"]["data"]) == PNG


async def test_files_need_no_text(story, runtime):
    assert (await send(story, files=[SimpleUploadedFile("a.png", PNG)])).status_code == 303
    [request] = await stored_requests()
    assert len(request["new_message"]["parts"]) == 1


async def test_message_sends_state_delta_and_set_run_config_fields(story, runtime):
    form = {"state_delta": '{"user:name": "Ada"}', "config.max_llm_calls": "3", "config.support_cfc": ""}
    assert (await send(story, message="hi", **form)).status_code == 303
    [request] = await stored_requests()
    assert request["state_delta"] == {"user:name": "Ada"}
    assert request["run_config"] == {"max_llm_calls": 3}


async def test_unset_options_are_not_sent(story, runtime):
    await send(story, message="hi")
    assert set((await stored_requests())[0]) == {"new_message", "streaming"}
    assert [path for path, _ in runtime.requests] in ([], ["start"])


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "message", "empty"),
        ({"message": "hi", "state_delta": '{"a":\n1,}'}, "state_delta", "Line 2, column 3"),
        ({"message": "hi", "state_delta": "[1]"}, "state_delta", "JSON object"),
        ({"message": "hi", "state_delta": '{"a": NaN}'}, "state_delta", "no JSON"),
        ({"message": "hi", "state_delta": '{"a": -1e999}'}, "state_delta", "number that is too large"),
        ({"message": "hi", "state_delta": r'{"a": "\ud800"}'}, "state_delta", "half of a character"),
        ({"message": "hi", "config.max_llm_calls": "many"}, "config.max_llm_calls", "whole number"),
        ({"message": "hi", "config.speech_config": "{"}, "config.speech_config", "Line 1"),
        (
            {"message": "hi", "config.speech_config.languageCode": "{"},
            "config.speech_config.languageCode",
            "speech_config.languageCode: Line 1",
        ),
        ({"message": "hi", "run_config": "7"}, "run_config", "JSON object"),
        ({"files": [SimpleUploadedFile("a.txt", b"")]}, "files", "empty"),
    ],
)
async def test_invalid_option_is_refused_at_its_field_without_run(story, runtime, body, field, words):
    response = await send(story, htmx=True, **body)
    assert (response.status_code, response["HX-Retarget"]) == (422, "#console-problems")
    [problem] = parse(response.content.decode()).all("li")
    assert problem.attrs["data-problem-for"] == field
    assert words in problem.text
    assert await stored_requests() == []


async def test_without_scripts_the_form_returns_with_input_and_errors(story, runtime):
    response = await send(story, message="hello", state_delta="{", **{"config.max_llm_calls": "many"})
    page = parse(response.content.decode())
    assert response.status_code == 422
    assert page.one("textarea", id="message").text == "hello"
    assert page.one("textarea", id="state-delta").attrs["aria-invalid"] == "true"
    field = page.one("input", id="console-field-config-max-llm-calls")
    assert (field.attrs["value"], field.attrs["aria-invalid"]) == ("many", "true")


async def test_adks_run_config_errors_show_at_the_field(story, runtime):
    runtime.problems = {"max_llm_calls": "should be less", "": "Not with streaming"}
    response = await send(story, htmx=True, message="hi", **{"config.max_llm_calls": "3"})
    problems = {
        each.attrs["data-problem-for"]: each.text for each in parse(response.content.decode()).all("li")
    }
    assert response.status_code == 422
    assert "should be less" in problems["config.max_llm_calls"]
    assert "Not with streaming" in problems["run_config"]
    assert json.loads(runtime.requests[0][1]) == {"run_config": {"max_llm_calls": 3}, "streaming": True}
    assert await stored_requests() == []


async def test_too_many_or_too_large_files_are_refused(story, runtime):
    many = [SimpleUploadedFile(f"{n}.txt", b"x") for n in range(message_draft.MAX_FILES + 1)]
    assert "too many" in (await send(story, htmx=True, files=many)).content.decode()
    half = b"x" * (message_draft.MAX_BYTES // 2 + 1)
    large = [SimpleUploadedFile("a.txt", half), SimpleUploadedFile("b.txt", half)]
    assert "the limit is" in (await send(story, htmx=True, files=large)).content.decode()
    assert await stored_requests() == []


async def test_form_has_every_run_config_field_and_marks_deprecated(story, runtime):
    page = parse((await AsyncClient().get(f"/runs/message/{story.pk}/?message=Hi")).content.decode())
    assert page.one("textarea", id="message").text == "Hi"
    names = {field.attrs.get("name") for tag in ("input", "select", "textarea") for field in page.all(tag)}
    assert {f"config.{name}" for name in RUN_CONFIG_SCHEMA["properties"]} <= names
    assert "deprecated" in page.one("label", **{"for": "console-field-config-support-cfc"}).text


async def test_eval_attempt_has_no_message_form(story):
    attempt = await units_of_work.write(lambda: Story(realm="eval/r1/c1/1"))
    assert (await AsyncClient().get(f"/runs/message/{attempt.pk}/")).status_code == 400


async def test_row_of_claimed_run_has_no_files_or_credentials(story):
    secret = {"authType": "apiKey", "apiKey": "s3cret"}
    answer = {"name": "adk_request_credential", "id": "c", "response": {"exchangedAuthCredential": secret}}
    parts = [{"inlineData": {"displayName": "a", "data": "QUFB"}}, {"functionResponse": answer}]
    request = {"new_message": {"role": "user", "parts": parts}}
    run = await units_of_work.write(lifecycle.create_run, story.pk, request)
    claimed = await units_of_work.write(lifecycle.claim, run.pk, None, "v1")
    assert json.loads(claimed.request) == request, "the process itself has all of it"
    [request_row] = await stored_requests()
    assert request_row["new_message"]["parts"][0] == {"inlineData": {"displayName": "a"}}
    assert "s3cret" not in json.dumps(request_row)


async def test_a_run_is_repeated_with_its_message_and_its_files(story, runtime):
    await send(story, message="look", files=[SimpleUploadedFile("a.png", PNG)], state_delta='{"a": 1}')
    [before] = await stored_requests()
    run = await units_of_work.read(Run.objects.get)
    await units_of_work.write(lifecycle.claim, run.pk, None, "v1")
    await units_of_work.write(lambda: story.add(*before["new_message"]["parts"], author="user"))
    await units_of_work.write(lambda: lifecycle.finish(run.pk, Run.Status.FAILED))
    response = await AsyncClient().post(reverse("run-again", kwargs={"run_id": run.pk}))
    assert response.status_code == 303
    assert (await stored_requests())[-1] == before
    assert await units_of_work.read(Event.objects.count) == 1


async def test_an_answer_is_not_repeated(story, runtime):
    answer = {"functionResponse": {"id": "c", "name": "n", "response": {}}}
    run = await units_of_work.write(lifecycle.create_run, story.pk, {"new_message": {"parts": [answer]}})
    response = await AsyncClient().post(reverse("run-again", kwargs={"run_id": run.pk}))
    assert response.status_code == 400
    assert len(await stored_requests()) == 1


@pytest.mark.parametrize(
    ("calls", "body", "field", "message"),
    [
        (("book", {}), {"response": "{broken"}, "response", "Line 1, column 2"),
        (("book", {}), {"response": " "}, "response", "The answer is empty."),
        ((CONFIRMATION, {}), {"confirmed": "yes", "payload": "[1"}, "payload", "Line 1, column 3"),
        (
            (CONFIRMATION, {}),
            {"confirmed": "yes", "payload": '{"a": NaN}'},
            "payload",
            "NaN, Infinity",
        ),
        ((REQUEST_CREDENTIAL, {"authConfig": API_KEY}), {}, "api_key", "The API key is missing."),
        ((CONFIRMATION, {}), {"confirmed": "perhaps"}, "", "Press one of the two buttons."),
        (
            (INPUT, {"response_schema": TRIP_SCHEMA}),
            {"answer.days": "two"},
            "answer.days",
            "This is no whole number.",
        ),
        (
            (INPUT, {"response_schema": TRIP_SCHEMA}),
            {"answer.days": "2"},
            "answer.city",
            "A value is needed here.",
        ),
    ],
)
async def test_invalid_answer_is_refused_at_its_field(story, runtime, calls, body, field, message):
    name, args = calls
    await units_of_work.write(lambda: story.calls(name, "c1", waiting=True, **args))
    response = await send(story, htmx=True, call_id="c1", **body)
    assert (response.status_code, response["HX-Reswap"]) == (422, "innerHTML")
    problems = {
        each.attrs["data-problem-for"]: each.text for each in parse(response.content.decode()).all("li")
    }
    assert message in problems[field]
    assert await stored_requests() == []


async def test_without_scripts_an_invalid_answer_is_an_error_page(story, runtime):
    await units_of_work.write(lambda: story.calls("book", "c1", waiting=True))
    response = await send(story, call_id="c1", response="{broken")
    assert response.status_code == 400
    assert "The answer is not valid JSON. Line 1, column 2" in response.content.decode()
