"""A recorded model call is edited and sent again by a real runtime, and its answers are compared."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from django.utils.datastructures import MultiValueDict
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from devui.asgi import application
from devui.runtime import playground as playground_runtime
from devui.runtime.playground import build_request, partial_json
from devui.supervisor import Supervisor
from evals_app.models import PlaygroundAnswer, PlaygroundRun
from evals_app.playground import runs
from evals_app.playground.answers import read_content
from evals_app.playground.columns import ColumnProblem, draft_request, parse_draft
from evals_app.playground.draft_form import parse_columns, read_form
from sessions_app.adk.model_calls import request_json
from sessions_app.quotas.quota_limits import QuotaUsedUp
from sessions_app.runs import runtime_client
from sessions_app.sessions import deletion
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event, ModelCall, RuntimeProcess
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from sessions_app.store.traces.content_store import MAX_TEXT
from tests import forked_processes
from tests.pages.html import Element, parse
from tests.patience import PATIENCE_S
from tests.store import store_url

AGENTS = Path(__file__).resolve().parents[2] / "examples/agents"
ORIGIN = "http://testserver"
SLOW = {"DEVUI_EXAMPLE_DELAY_MS": "60000"}
"""Makes the models of the examples wait before each streamed chunk."""

Fields = dict[str, str]

pytestmark = pytest.mark.usefixtures("store")


@dataclass
class Playground:
    """The playground of a recorded model call, over HTTP."""

    web: httpx.AsyncClient
    call: ModelCall

    @property
    def address(self) -> str:
        """Address of the form."""
        return f"/sessions/id/{self.call.session_id}/model-calls/{self.call.pk}/try/"

    async def open(self, address: str = "") -> Element:
        """Return a page."""
        response = await self.web.get(address or self.address)
        assert response.status_code == 200, response.text[:2000]
        return parse(response.content)

    async def send(self, fields: Fields, status: int = 200) -> Element:
        """Send the form by a button, and return the page that shows it again."""
        response = await self.web.post(self.address, data=fields)
        assert response.status_code == status, response.text[:2000]
        return parse(response.content)

    async def open_form(self) -> Fields:
        """Return the inputs of the form with the recorded request."""
        return form_fields(await self.open())

    async def press_button(self, action: str, fields: Fields) -> Fields:
        """Send the form by the button of an action, and return its inputs afterwards."""
        return form_fields(await self.send({**fields, "action": action}))

    async def run(self, fields: Fields) -> str:
        """Send the form and return the address of the run."""
        response = await self.web.post(self.address, data={**fields, "action": "run"})
        assert response.status_code == 302, parse(response.content).text
        return str(response.headers["location"])

    async def run_to_end(self, fields: Fields) -> Element:
        """Send the form, wait until all answers have ended, and return the page of the run."""
        address = await self.run(fields)
        await wait_until(
            lambda: not PlaygroundAnswer.objects.filter(status__in=PlaygroundAnswer.ACTIVE).exists()
        )
        return await self.open(address)


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition on the store is true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await units_of_work.read(condition):
                return
            await asyncio.sleep(0.05)


@asynccontextmanager
async def recorded_call(
    question: str, environment: dict[str, str] | None = None
) -> AsyncIterator[Playground]:
    """Ask the weather agent of the examples, and yield the page of its first model call."""
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, timeout=PATIENCE_S) as web:
        with forked_processes.starts():
            supervisor = Supervisor(AGENTS, environment={"DATABASE_URL": store_url(), **(environment or {})})
            async with supervisor:
                runtime_client.register(supervisor)
                owner = {"appName": "weather", "userId": "ann", "sessionId": "s1"}
                await web.post("/apps/weather/users/ann/sessions/s1", json={})
                message = {"role": "user", "parts": [{"text": question}]}
                answer = await web.post("/run", json={**owner, "newMessage": message})
                assert answer.status_code == 200, answer.text
                await wait_until(lambda: ModelCall.objects.filter(response__isnull=False).exists())
                call = await units_of_work.read(lambda: ModelCall.objects.order_by("pk")[0])
                yield Playground(web, call)
            runtime_client.register(None)


def posted(fields: Fields) -> MultiValueDict[str, str]:
    """Return inputs as Django reads them."""
    return MultiValueDict({name: [value] for name, value in fields.items()})


def form_fields(page: Element) -> Fields:
    """Return the inputs of the form as a browser sends them."""
    form = next(form for form in page.all("form") if form.all("input", name="columns"))
    fields = {}
    for element in form:
        name = element.attrs.get("name")
        if element.tag == "input" and (element.attrs.get("type") != "checkbox" or "checked" in element.attrs):
            fields[name or ""] = element.attrs.get("value", "on")
        elif element.tag == "textarea":
            text = "".join(child for child in element.children if isinstance(child, str))
            fields[name or ""] = text.removeprefix("\n")
        elif element.tag == "select":
            options = element.all("option")
            chosen = next((option for option in options if "selected" in option.attrs), options[0])
            fields[name or ""] = chosen.attrs.get("value", chosen.text)
    return fields


def form_error(page: Element) -> str:
    """Return the only error of a form."""
    return page.one("p", role="alert").text


async def test_unchanged_request_gets_the_recorded_answer_and_leaves_the_session():
    async with recorded_call("What is the weather in Paris?") as playground:
        fields = await playground.open_form()
        assert "You are a weather desk." in fields["c0-instruction"]
        assert fields["c0-content0-text"] == "What is the weather in Paris?"
        events = await units_of_work.read(Event.objects.count)
        page = await playground.run_to_end({**fields, "name": "same", "c0-repetitions": "2"})
        badges = [badge.text for badge in page.one(id="playground-answers").all(css="badge")]
        assert badges == ["done", "as recorded"] * 2
        assert "the recorded request" in page.text
        recorded = page.one("section", aria_label="Recorded answer")
        assert recorded.one("code", css="call").text == 'get_weather(city="Paris")'
        assert [row.one("code", css="call").text for row in page.all("td")[:2]] == [
            'get_weather(city="Paris")'
        ] * 2
        assert await units_of_work.read(Event.objects.count) == events
        assert await units_of_work.read(ModelCall.objects.count) == 2
        answer = await units_of_work.read(lambda: PlaygroundAnswer.objects.filter(repetition=1).get())
        assert answer.total_tokens == playground.call.total_tokens
        start_page = await playground.open()
        assert start_page.one("ol", css="playground-runs").one("a").text == "same"


async def test_changed_message_is_compared_argument_by_argument():
    async with recorded_call("What is the weather in Paris?") as playground:
        fields = await playground.press_button("add-column", await playground.open_form())
        page = await playground.run_to_end({**fields, "c1-content0-text": "What is the weather in Rome?"})
        first, second = (page.one("section", aria_label=f"Column {number}") for number in (1, 2))
        assert [badge.text for badge in first.all(css="badge")] == ["done", "as recorded"]
        assert [badge.text for badge in second.all(css="badge")] == ["done", "differs"]
        assert "history: 1 gone, 1 new" in second.text
        assert second.one("tr", css="pair-args").one(css="added").text == 'city="Rome"'
        next_fields = form_fields(page)
        assert next_fields["c1-content0-text"] == "What is the weather in Rome?"


async def test_contents_are_added_moved_and_removed_and_a_tool_is_left_out():
    async with recorded_call("What is the weather in Paris?") as playground:
        fields = await playground.open_form()
        fields = await playground.press_button("add-content:0", fields)
        fields = await playground.press_button("move-up:0:1", {**fields, "c0-content1-text": "Hello"})
        assert [fields["c0-content0-text"], fields["c0-content1-text"]] == [
            "Hello",
            "What is the weather in Paris?",
        ]
        fields = await playground.press_button("remove-content:0:1", fields)
        del fields["c0-tool0-offered"]
        page = await playground.run_to_end(fields)
        assert "tools: removed" in page.text
        run = await units_of_work.read(PlaygroundRun.objects.get)
        (column,) = json.loads(run.columns)
        assert column["contents"] == [{"role": "user", "parts": [{"text": "Hello"}]}]
        assert "c0-tool0-offered" not in {
            name for name, value in form_fields(page).items() if "get_weather" in value
        }


REFUSALS: list[tuple[Fields, str]] = [
    ({"c0-model": "nonsense"}, "Model: Model nonsense not found."),
    ({"c0-model": " "}, "Model: name one"),
    (
        {"c0-config": '{"temperature": "hot"}'},
        "Generation config: temperature: Input should be a valid number",
    ),
    ({"c0-config.temperature": "hot"}, "Generation config: temperature: This is no number. Correct it."),
    (
        {"c0-config.thinking_config.thinkingBudget": "some"},
        "Generation config: thinking_config.thinkingBudget: This is no whole number.",
    ),
    (
        {"c0-config.temperature": "1", "c0-config": '{"temperature": 2}'},
        "Generation config: temperature is set in its field and in the JSON. Remove one.",
    ),
    ({"c0-config": '{"tempo": 1}'}, "Generation config: tempo: Extra inputs are not permitted."),
    (
        {"c0-config": '{"httpOptions": {"baseUrl": "http://evil.example"}}'},
        "Generation config: http_options: it cannot be changed here. Remove it",
    ),
    ({"c0-config": "[]"}, "Generation config: give a JSON object"),
    ({"c0-config": "{"}, "Generation config: this is not valid JSON"),
    ({"c0-instruction": "x" * 1_048_576}, "System instruction: 1,048,576 characters, and at most 200,000"),
    ({"c0-content0-text": "x" * 1_000_001}, "Request: 1,0"),
    (
        {"c0-config": '{"temperature": NaN}'},
        "Generation config: this is not valid JSON. It is no JSON: it contains NaN",
    ),
    (
        {"c0-config": '{"stopSequences": ["\\ud800"]}'},
        "Generation config: this is not valid JSON. It contains a lone",
    ),
    ({"c0-config": "[" * 100_000}, "Generation config: this is not valid JSON. It is nested too deeply."),
    ({"c0-tool0": "[" * 100_000}, "Tool 1: this is not valid JSON. It is nested too deeply."),
    (
        {"c0-config": '{"responseJsonSchema": ' + '{"a":' * 900 + "1" + "}" * 901},
        "Request: 1,6",
    ),
    (
        {"c0-config": '{"responseJsonSchema": ' + '{"a":' * 300 + "1" + "}" * 301},
        "Generation config: the value: Invalid JSON: recursion limit exceeded",
    ),
    (
        {"c0-config": '{"tools": [{"googleSearch": {}}]}'},
        "Generation config: tools: it has an input of its own",
    ),
    (
        {"c0-config": '{"systemInstruction": "Be brief."}'},
        "Generation config: system_instruction: it has an input of its own",
    ),
    (
        {"c0-model": "projects/" + "x/locations/" * 4_000},
        "Model: 48,009 characters, and at most 300 are sent.",
    ),
    ({"c0-repetitions": "9" * 5_000}, "Repetitions: give a number from 1 to 10."),
    ({"c0-repetitions": "11"}, "Repetitions: give a number from 1 to 10."),
    ({"c0-contents": "0"}, "Contents: there are none"),
    ({"c0-tool0": '{"name": 1}'}, "Tool 1: name: Input should be a valid string."),
    ({"c0-content0-json": "1", "c0-content0-text": '[{"txt": 1}]'}, "Content 1: parts.0.txt: Extra inputs"),
    ({"c0-content0-json": "1", "c0-content0-text": "{}"}, "Content 1: give a JSON list of parts"),
]


async def test_generation_config_is_set_in_fields_and_other_settings_as_json():
    async with recorded_call("What is the weather in Paris?") as playground:
        fields = await playground.open_form()
        assert "c0-config.http_options" not in fields
        settings = {
            "c0-config.temperature": "0.5",
            "c0-config.stop_sequences": "one\r\ntwo",
            "c0-config.thinking_config.thinkingBudget": "0",
            "c0-config": '{"safety_settings": [], "seed": 7}',
            "c0-tool0-description": "Answers\r\nat once.",
        }
        page = await playground.run_to_end({**fields, **settings})
        run = await units_of_work.read(PlaygroundRun.objects.get)
        (column,) = json.loads(run.columns)
        assert column["config"] == {
            "temperature": 0.5,
            "stop_sequences": ["one", "two"],
            "thinking_config": {"thinkingBudget": 0},
            "safety_settings": [],
            "seed": 7,
        }
        assert column["tools"][0]["description"] == "Answers\nat once."
        again = form_fields(page)
        assert {name: again[name] for name in settings if name != "c0-config"} == {
            "c0-config.temperature": "0.5",
            "c0-config.stop_sequences": "one\ntwo",
            "c0-config.thinking_config.thinkingBudget": "0",
            "c0-tool0-description": "Answers\nat once.",
        }
        assert (again["c0-config"], again["c0-config.seed"]) == ("", "7")


async def test_invalid_input_is_refused_and_kept():
    async with recorded_call("What is the weather in Paris?") as playground:
        fields = {**await playground.open_form(), "name": "my try"}
        for changed, message in REFUSALS:
            page = await playground.send({**fields, **changed, "action": "run"}, status=422)
            assert form_error(page).startswith(message)
            shown = form_fields(page)
            assert {name: shown[name] for name in changed} == changed
            assert shown["name"] == "my try"
        assert not await units_of_work.read(PlaygroundRun.objects.exists)


async def test_answer_without_key_names_the_variable_and_the_other_column_goes_on():
    async with recorded_call("What is the weather in Paris?") as playground:
        fields = await playground.press_button("add-column", await playground.open_form())
        page = await playground.run_to_end(
            {**fields, "c0-model": "gemini-2.5-flash", "c1-content0-text": "Tell me a joke"}
        )
        first, second = (page.one("section", aria_label=f"Column {number}") for number in (1, 2))
        assert "GOOGLE_API_KEY is not set where the agent runs" in first.one(css="event-error").text
        assert second.all(css="badge")[0].text == "done"


async def test_column_is_cancelled_while_another_goes_on():
    async with recorded_call("What is the weather in Paris?", SLOW) as playground:
        fields = await playground.press_button("add-column", await playground.open_form())
        address = await playground.run({**fields, "c0-content0-text": "Hello"})
        await wait_until(lambda: PlaygroundAnswer.objects.filter(column=1, status="done").exists())
        page = await playground.open(address)
        assert page.one("button", name="column").text == "Cancel column 1"
        for column in ("abc", "4", ""):
            response = await playground.web.post(f"{address}cancel/", data={"column": column})
            assert response.status_code == 400
            assert f"There is no column {column!r}" in html.unescape(response.text)
        assert await units_of_work.read(PlaygroundAnswer.objects.filter(column=0, status="running").exists)
        await playground.web.post(f"{address}cancel/", data={"column": "0"})
        headers = {"HX-Request": "true", "HX-Target": "playground-answers"}
        response = await playground.web.post(f"{address}cancel/", data={"column": "0"}, headers=headers)
        assert response.status_code == 200
        assert not parse(response.content).all("form")  # the form below keeps what was typed
        statuses = await units_of_work.read(
            lambda: list(PlaygroundAnswer.objects.order_by("column").values_list("status", flat=True))
        )
        assert statuses == ["cancelled", "done"]
        client = await runtime_client.provider().client("weather")
        await client.call("POST", "/devui/drain")
        await wait_until(
            lambda: not RuntimeProcess.objects.exclude(app_name="").filter(stopped_at=None).exists()
        )


async def test_answers_of_a_process_that_has_ended_fail():
    async with recorded_call("What is the weather in Paris?", SLOW) as playground:
        fields = await playground.open_form()
        address = await playground.run({**fields, "c0-content0-text": "Hello"})
        await wait_until(lambda: PlaygroundAnswer.objects.filter(status="running").exists())
        await units_of_work.write(lambda: RuntimeProcess.objects.exclude(app_name="").update(stopped_at=1.0))
        page = await playground.open(address)
        assert page.one(css="event-error").text == f"ProcessEnded {runs.PROCESS_ENDED_MESSAGE}"


class SlowModel(BaseLlm):
    """A model that never answers, or whose client gives up by itself."""

    async def generate_content_async(self, llm_request, stream=False):
        if self.model == "never-answers":
            await asyncio.sleep(60)
        raise TimeoutError("The connection timed out.")
        yield


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("never-answers", "The model did not answer within 0.1 s."),
        ("gives-up", "The connection timed out."),
    ],
)
async def test_timeout_of_a_call_is_told_from_that_of_its_client(monkeypatch, model, message):
    monkeypatch.setattr(playground_runtime, "CALL_TIMEOUT_S", 0.1)
    async with recorded_call("What is the weather in Paris?") as playground:
        form = read_form(posted({**await playground.open_form(), "c0-model": model}), {})
        columns = parse_columns(form)[0]
        run = await units_of_work.write(runs.create_run, playground.call, columns)
        answers = await units_of_work.read(lambda: list(run.answers.all()))
        agent = LlmAgent(name=playground.call.agent, model=SlowModel(model=model))
        execution = playground_runtime.PlaygroundExecution(run.pk, columns, agent.name, agent)
        await execution.make_calls(answers)
        answer = await units_of_work.read(run.answers.get)
        assert (answer.status, answer.error_type, answer.error) == ("failed", "TimeoutError", message)


async def test_run_that_no_process_took_counts_in_no_quota_after_a_while():
    async with recorded_call("What is the weather in Paris?") as playground:
        column = parse_columns(read_form(posted(await playground.open_form()), {}))[0]
        run = await units_of_work.write(runs.create_run, playground.call, column, person="ann")
        assert await units_of_work.read(lambda: list(runs.find_active_runs())) == [("ann", "weather")]
        await units_of_work.write(lambda: PlaygroundRun.objects.filter(pk=run.pk).update(created_at=1.0))
        assert await units_of_work.read(lambda: list(runs.find_active_runs())) == []


async def test_run_is_found_only_under_its_own_call_and_is_deleted_with_its_session():
    async with recorded_call("What is the weather in Paris?") as playground:
        address = await playground.run(await playground.open_form())
        await wait_until(lambda: PlaygroundAnswer.objects.filter(status="done").exists())
        other_call = await units_of_work.read(lambda: ModelCall.objects.order_by("-pk")[0].pk)
        other_address = address.replace(f"/model-calls/{playground.call.pk}/", f"/model-calls/{other_call}/")
        response = await playground.web.get(other_address)
        assert response.status_code == 404
        assert f"Model call {other_call} has no playground run" in response.text
        stranger = await units_of_work.write(writes.create_session, SessionKey("", "weather", "bob", "s2"))
        other_address = address.replace(f"/id/{playground.call.session_id}/", f"/id/{stranger.pk}/")
        assert (await playground.web.get(other_address)).status_code == 404
        assert (await playground.web.post(other_address + "cancel/")).status_code == 404
        await units_of_work.write(deletion.delete_for_good, playground.call.session_id)
        assert not await units_of_work.read(PlaygroundRun.objects.exists)


def make_run(name: str = "", *, session_id: str = "s1", app: str = "weather") -> PlaygroundRun:
    """Create a run of a call in a session of its own, with one answer that is done."""
    key = SessionKey("", app, "ann", session_id)
    session = writes.create_session(key)
    call = ModelCall.objects.create(session=session, agent="weather", number=1, model="m", started_at=1.0)
    run = runs.create_run(
        call, [parse_draft(draft_request({"model": "m-2", "contents": [{"parts": []}]}, {}), {})], name=name
    )
    run.answers.update(status=PlaygroundAnswer.Status.DONE)
    return run


def test_runs_of_all_sessions_are_listed_newest_first_and_by_app(client):
    make_run("colder")
    make_run("<b>warmer</b>", session_id="s2", app="kitchen")
    page = parse(client.get("/evals/playground/").content)
    rows = [row.text for row in page.all("tr")[1:]]
    assert ["warmer" in row for row in rows] == [True, False]
    assert not page.all("b")
    assert "m-2" in rows[1]
    only = parse(client.get("/evals/playground/?app=weather").content)
    assert [row.text.split()[0] for row in only.all("tr")[1:]] == ["colder"]
    assert client.get("/evals/playground.csv").content.count(b"\r\n") == 3


def test_runs_of_a_deleted_session_are_not_listed(client):
    run = make_run("gone")
    deletion.delete([run.session_id])
    assert "No playground runs yet" in parse(client.get("/evals/playground/").content).text


def test_run_is_renamed_and_deleted_after_a_question(client):
    run = make_run("colder")
    address = f"/sessions/id/{run.session_id}/model-calls/{run.call_id}/try/{run.pk}/"
    assert client.post(f"{address}rename/", {"name": " cold\0er "}).headers["location"] == address
    run.refresh_from_db()
    assert run.name == "cold\ufffder"
    question = parse(client.get(f"{address}delete/").content)
    assert "Delete cold" in question.all("h1")[0].text
    assert client.post(f"{address}delete/").headers["location"] == "/evals/playground/"
    assert not PlaygroundAnswer.objects.exists()
    assert client.post(f"{address}rename/", {"name": "x"}).status_code == 404


@pytest.mark.parametrize("name", ["tempo", "topK", "http_options", "http_options.base_url"])
def test_setting_that_no_field_has_is_refused(name):
    schema = {"properties": {"temperature": {"type": "number"}}}
    request = draft_request({"model": "m", "contents": [{"parts": []}]}, schema)
    with pytest.raises(ColumnProblem, match=f"Generation config: {name}: there is no such field."):
        parse_draft(replace(request, config_inputs={name: ["1"]}), schema)


async def test_call_over_a_live_connection_is_refused():
    async with recorded_call("What is the weather in Paris?") as playground:
        request = {**json.loads(playground.call.request), "live": True}
        await units_of_work.write(
            lambda: ModelCall.objects.filter(pk=playground.call.pk).update(request=json.dumps(request))
        )
        response = await playground.web.get(playground.address)
        assert response.status_code == 400
        assert "went over a live connection" in response.text


async def test_request_from_another_site_is_refused():
    async with recorded_call("What is the weather in Paris?") as playground:
        fields = await playground.open_form()
        headers = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
        response = await playground.web.post(playground.address, data=fields, headers=headers)
        assert response.status_code == 403
        assert not await units_of_work.read(PlaygroundRun.objects.exists)


async def test_used_up_quota_refuses_the_run_and_keeps_the_form(monkeypatch):
    def refuse(person: str, app_name: str) -> None:
        raise QuotaUsedUp("ann has used up today's quota of 1 runs.", hint="It starts anew at 00:00 UTC.")

    monkeypatch.setattr(runs, "admit_run", refuse)
    async with recorded_call("What is the weather in Paris?") as playground:
        fields = {**await playground.open_form(), "name": "one too many", "action": "run"}
        page = await playground.send(fields, status=422)
        assert page.one("div", css="notice-danger").text.startswith("ann has used up today's quota")
        assert form_fields(page)["name"] == "one too many"
        assert not await units_of_work.read(PlaygroundRun.objects.exists)


async def test_form_without_columns_and_unknown_buttons_are_refused_or_change_nothing():
    async with recorded_call("What is the weather in Paris?") as playground:
        fields = await playground.open_form()
        response = await playground.web.post(playground.address, data={"action": "run"})
        assert response.status_code == 400
        assert "The form has no column." in response.text
        for action in ("", "explode", "move-up:0:0", "remove-column:0", "remove-content:0:" + "9" * 5_000):
            assert await playground.press_button(action, fields) == fields


def test_half_of_a_character_in_a_recorded_request_does_not_break_the_page():
    request = {
        "system_instruction": "be \ud800 brief",
        "contents": [{"role": "user", "parts": [{"text": "hi \ud800"}]}, None],
        "config": {"stop_sequences": ["\ud800"]},
    }
    draft = draft_request(request, {})
    assert draft.instruction == "be ? brief"
    assert draft.contents[0].is_json
    "".join((draft.config, *(content.text for content in draft.contents))).encode()


def test_bytes_of_a_recorded_request_are_sent_as_they_were():
    content = types.Content(
        role="model",
        parts=[
            types.Part(text="so", thought_signature=b"\xff\xfe signature"),
            types.Part(inline_data=types.Blob(mime_type="image/png", data=bytes(range(256)))),
        ],
    )
    sent = LlmRequest(model="m", contents=[content], config=types.GenerateContentConfig(temperature=0.5))
    column = parse_draft(draft_request(request_json(sent), {}), {})
    request = build_request(column, None)
    assert request.contents == [content]
    assert request.config.temperature == 0.5


def test_text_so_far_is_truncated():
    chunks = ["so ", "\x00\ud800", "y" * (MAX_TEXT + 1)]
    partials = [
        LlmResponse(content=types.Content(parts=[types.Part.model_construct(text=chunk)]), partial=True)
        for chunk in chunks
    ]
    answer = partial_json(partials)
    text = answer["content"]["parts"][0]["text"]
    assert text.startswith("so ")
    assert MAX_TEXT < len(text) < MAX_TEXT + 100
    assert answer["partial"] is True


def test_content_of_responses_separates_text_thoughts_calls_and_error():
    parts = [
        {"text": "Let me see. ", "thought": True},
        {"text": "It is "},
        {"functionCall": {"name": "look", "args": {"at": 1}}},
        {"text": "sunny."},
    ]
    content = read_content(
        [{"content": {"parts": parts}, "finish_reason": "MAX_TOKENS", "error_code": "MAX_TOKENS"}]
    )
    assert (content.text, content.thoughts) == ("It is sunny.", "Let me see. ")
    assert content.calls == [{"name": "look", "args": {"at": 1}}]
    assert (content.finish_reason, content.error) == ("MAX_TOKENS", "MAX_TOKENS")
    assert read_content([]).is_empty
