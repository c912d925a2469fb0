"""Questions of agents answered with forms: real processes, ADK's own Runner, resumed runs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from django.test import AsyncClient

from sessions_app.console.questions import Question, open_questions
from sessions_app.runs import runtime_client
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.timeline import event_window as windows
from tests.console.runs import STAGE, newest_ended_run
from tests.pages.html import parse
from tests.runtime.conftest import STAGE as RUNTIME_STAGE
from tests.runtime.conftest import Stage, opened_stage, pid_of, read_events
from tests.web import serve

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "s3cret-of-the-test"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(module_store: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Agents that ask for everything one can be asked for, as pages reach them."""
    data = tmp_path_factory.mktemp("console")
    agents = shutil.copytree(STAGE, data / "agents", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(RUNTIME_STAGE / "acting.py", agents)
    async with opened_stage(agents, data) as opened:
        runtime_client.register(opened.supervisor)
        yield opened
        runtime_client.register(None)


async def open_question(session: AgentSession) -> Question:
    """Return the one question that is open on a session."""

    def read() -> list[Question]:
        fresh = AgentSession.objects.get(pk=session.pk)
        result = open_questions(fresh, windows.newest(fresh).events)
        return [question for questions in result.values() for question in questions]

    questions = await units_of_work.read(read)
    assert len(questions) == 1
    return questions[0]


async def answer(session: AgentSession, **answer_fields: str) -> Run:
    """Answer the open question by its form, and return the run that goes on with it."""
    question = await open_question(session)
    fields = {"call_id": question.call_id, **answer_fields}
    response = await AsyncClient().post(f"/runs/start/{session.pk}/", fields)
    assert response.status_code == 303, response.content.decode()
    return await newest_ended_run(session)


async def results(session: AgentSession) -> list[Any]:
    """Return what tools of a session answered, oldest first."""
    events: list[Event] = await read_events(session)
    parts = [part for event in events for part in json.loads(event.data).get("content", {}).get("parts", [])]
    return [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]


async def test_long_running_tool_is_answered_in_json(stage: Stage):
    session = await stage.session("keeper")
    assert (await stage.run(session, 'call ask_boss {"what": "leave"}')).status == Run.Status.WAITING
    run = await answer(session, response='{"approved": true, "days": 3}')
    assert run.status == Run.Status.DONE, run.error
    assert (await results(session))[-1] == {"approved": True, "days": 3}


async def test_requested_input_is_answered_by_form_of_its_schema(stage: Stage):
    session = await stage.session("trip")
    assert (await stage.run(session, "go")).status == Run.Status.WAITING
    question = await open_question(session)
    assert (question.hint, question.payload) == ("Where to?", {"offer": "a week off"})
    run = await answer(session, **{"answer.city": "Rome", "answer.days": "2"})
    assert run.status == Run.Status.DONE, run.error
    assert any("2 days in Rome" in event.data for event in await read_events(session))


async def test_a_model_that_asks_gets_a_text_that_stays_a_text(stage: Stage):
    session = await stage.session("keeper")
    schema = {"message": "Which room?", "response_schema": {"type": "string"}}
    run = await stage.run(session, f"call adk_request_input {json.dumps(schema)}")
    assert run.status == Run.Status.WAITING
    run = await answer(session, answer="104")
    assert run.status == Run.Status.DONE, run.error
    assert (await results(session))[-1] == {"result": '"104"'}


@pytest.mark.parametrize(("tool", "field"), [("use_key", "api_key"), ("use_token", "token")])
async def test_a_credential_reaches_the_tool_and_nothing_else(stage: Stage, tool: str, field: str):
    session = await stage.session("keeper")
    assert (await stage.run(session, f"call {tool}")).status == Run.Status.WAITING
    run = await answer(session, **{field: SECRET})
    assert run.status == Run.Status.DONE, run.error
    assert {"used": SECRET} in await results(session), "the tool says it itself"
    answers = [event for event in await read_events(session) if event.author == "user"]
    assert SECRET not in "".join(event.data for event in answers)
    assert SECRET not in run.request


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    """Serve a provider of OAuth that grants whatever is asked, to whoever shows the code it gave."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        form = parse_qs((body + message.get("body", b"")).decode())
        is_right = scope["path"] == "/token" and form.get("code") == ["c0de"]
        answer = {"access_token": SECRET, "token_type": "bearer"} if is_right else {"error": "no"}
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200 if is_right else 400, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async with serve(app) as address:
        yield f"http://{address}"


async def test_sign_in_redirects_to_provider_and_resumes_run(stage: Stage):
    async with provider() as url:
        session = await stage.session("keeper")
        run = await stage.run(session, f'call use_account {{"provider": "{url}"}}')
        assert run.status == Run.Status.WAITING
        question = await open_question(session)
        browser = AsyncClient()
        response = await browser.get(f"/runs/sign-in/{session.pk}/", {"call": question.call_id})
        assert response.status_code == 302
        there = urlsplit(response["Location"])
        query = {name: values[0] for name, values in parse_qs(there.query).items()}
        assert f"{there.scheme}://{there.netloc}{there.path}" == f"{url}/auth"
        assert (query["client_id"], query["redirect_uri"]) == ("me", "http://testserver/runs/signed-in/")

        stranger = await AsyncClient().get("/runs/signed-in/", {"state": query["state"], "code": "c0de"})
        assert stranger.status_code == 400, "another browser has begun nothing"
        back = await browser.get("/runs/signed-in/", {"state": query["state"], "code": "c0de"})
        assert back.status_code == 302, back.content.decode()
        run = await newest_ended_run(session)
        assert run.status == Run.Status.DONE, run.error
        assert {"used": SECRET} in await results(session)
        again = await browser.get("/runs/signed-in/", {"state": query["state"], "code": "c0de"})
        assert again.status_code in {400, 404}, "a code is used once"


async def test_a_provider_that_refuses_is_quoted_and_the_question_stays(stage: Stage):
    session = await stage.session("keeper")
    await stage.run(session, 'call use_account {"provider": "https://id.example"}')
    question = await open_question(session)
    browser = AsyncClient()
    response = await browser.get(f"/runs/sign-in/{session.pk}/", {"call": question.call_id})
    state = parse_qs(urlsplit(response["Location"]).query)["state"][0]
    back = await browser.get("/runs/signed-in/", {"state": state, "error": "access_denied"})
    assert back.status_code == 400
    assert "access_denied" in back.content.decode()
    ways_on = [link.attrs["href"] for link in parse(back.content).one(css="problem").all("a")]
    assert ways_on == [f"/sessions/keeper/ann/{session.session_id}/"], "trying again would be refused again"
    assert (await open_question(session)).call_id == question.call_id


@pytest.mark.soak
async def test_questions_survive_a_restart_of_the_agents_process(stage: Stage):
    session = await stage.session("keeper")
    await stage.run(session, 'call ask_boss {"what": "leave"}')
    os.kill(await pid_of(stage, "keeper"), signal.SIGKILL)
    run = await answer(session, response='{"approved": false}')
    assert run.status == Run.Status.DONE, run.error
    assert (await results(session))[-1] == {"approved": False}


async def test_adk_judges_a_run_config_at_its_field(stage: Stage):
    session = await stage.session("keeper")
    await asyncio.gather(stage.health("keeper"))
    form = {
        "message": "say hi",
        "config.max_llm_calls": str(2**63),
        "config.http_options": '{"timeout": "x"}',
    }
    response = await AsyncClient().post(f"/runs/start/{session.pk}/", form, headers={"HX-Request": "true"})
    page = response.content.decode()
    assert response.status_code == 422
    assert 'data-problem-for="config.max_llm_calls"' in page
    assert 'data-problem-for="config.http_options"' in page
    assert not await units_of_work.read(lambda: Run.objects.filter(session=session).exists())
