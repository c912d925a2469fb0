"""Live runs and resumed invocations: real processes, ADK's own server."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from django.test import AsyncClient
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from sessions_app.runs import runtime_client
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, ModelCall, Run
from tests.console.runs import STAGE, newest_ended_run
from tests.pages.html import parse
from tests.patience import PATIENCE_S
from tests.runtime.conftest import STAGE as RUNTIME_STAGE
from tests.runtime.conftest import Stage, opened_stage, read_events, read_run, until
from tests.web import serve

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the agents, for tests to write beside."""
    folder = tmp_path_factory.mktemp("live") / "agents"
    shutil.copytree(STAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.copy(RUNTIME_STAGE / "acting.py", folder)).parent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(module_store: None, agents: Path) -> AsyncIterator[Stage]:
    """The agents, as pages reach them."""
    async with opened_stage(agents, agents.parent) as opened:
        runtime_client.register(opened.supervisor)
        yield opened
        runtime_client.register(None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(stage: Stage) -> AsyncIterator[str]:
    """The address of a server."""
    from devui.asgi import application

    async with serve(application) as address:
        yield address


def line_to(server: str, session: AgentSession) -> Any:
    query = f"app_name={session.app_name}&user_id=ann&session_id={session.session_id}&modalities=TEXT"
    return connect(f"ws://{server}/run_live?{query}", proxy=None, open_timeout=PATIENCE_S)


def text_frame(text: str) -> str:
    return json.dumps({"content": {"role": "user", "parts": [{"text": text}]}})


async def answer_on(line: Any) -> list[dict[str, Any]]:
    """Return the events of a turn."""
    events = []
    async with asyncio.timeout(PATIENCE_S):
        while not events or not events[-1].get("turnComplete"):
            events.append(json.loads(await line.recv()))
    return events


async def rest_of(line: Any) -> None:
    """Hear what comes until the line is closed."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await line.recv()


async def test_connection_is_a_run_with_events_and_model_requests(stage, server):
    session = await stage.session("speaker")
    async with line_to(server, session) as line:
        await line.send(text_frame("hello"))
        text = "".join(
            part.get("text", "")
            for event in await answer_on(line)
            if event.get("partial")
            for part in event["content"]["parts"]
        )
        assert text == "You said: hello"
        [run] = await units_of_work.read(lambda: list(Run.objects.filter(session=session)))
        assert run.status == Run.Status.RUNNING
    ended = await stage.end_of(run)
    assert (ended.status, ended.source, json.loads(ended.request)) == ("cancelled", "adk", {"live": True})
    events = await read_events(session)
    assert [event.author for event in events][:2] == ["user", "speaker"]
    assert {event.invocation_id for event in events} == {ended.invocation_id}
    [call] = await until(
        lambda: units_of_work.read(lambda: list(ModelCall.objects.filter(session=session))),
        lambda result: bool(result),
    )
    assert (call.agent, call.model, call.invocation_id) == ("speaker", "scripted-live", ended.invocation_id)
    page = (await AsyncClient().get(f"/sessions/id/{session.pk}/model-calls/{call.pk}/")).content.decode()
    assert "Sent over a live connection" in page


async def test_a_connection_that_the_client_ends_by_saying_so_is_done(stage, server):
    session = await stage.session("speaker")
    async with line_to(server, session) as line:
        await line.send(text_frame("hello"))
        await answer_on(line)
        await line.send(json.dumps({"close": True}))
        ended = await until(
            lambda: units_of_work.read(Run.objects.filter(session=session).first),
            lambda run: run is not None and run.status not in Run.ACTIVE,
        )
    assert ended.status == Run.Status.DONE


async def test_a_model_that_breaks_is_a_failed_run_and_a_reason(stage, server):
    session = await stage.session("speaker")
    async with line_to(server, session) as line:
        await line.send(text_frame("break"))
        with pytest.raises(ConnectionClosed) as closed:
            await rest_of(line)
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1011, "The line is broken.")
    run = await newest_ended_run(session)
    assert (run.status, run.error_type, run.error) == ("failed", "RuntimeError", "The line is broken.")


async def test_page_offers_modalities_of_the_model(stage):
    speaks, writes = await stage.session("speaker"), await stage.session("trip")
    page = parse((await AsyncClient().get(f"/runs/live/{speaks.pk}/")).content)
    assert (
        page.one("section", id="live")
        .attrs["data-socket"]
        .startswith("/run_live?app_name=speaker&user_id=ann&")
    )
    assert page.one("noscript")
    body = parse((await AsyncClient().get(f"/runs/live/{writes.pk}/")).content)
    assert body.one("div", css="empty").one("h2").text == "This agent has no live connection"
    assert not body.all("section", id="live")


async def test_failed_invocation_resumes_and_completes(stage, agents):
    session = await stage.session("journey")
    failed = await stage.run(session, "go")
    assert (failed.status, failed.error) == ("failed", "The road is closed.")
    page = (await AsyncClient().get(f"/sessions/id/{session.pk}/")).content.decode()
    assert f"/runs/{failed.pk}/resume/" in page

    (agents / "journey" / "road").touch()
    assert (await AsyncClient().post(f"/runs/{failed.pk}/resume/")).status_code == 302
    resumed = await newest_ended_run(session)

    assert (resumed.status, resumed.invocation_id) == ("done", failed.invocation_id)
    diary = (agents / "journey" / "diary").read_text().splitlines()
    assert diary == ["packed", "turned back", "drove, packed", "arrived, drove, packed"]
    assert any("arrived, drove, packed" in event.data for event in await read_events(session))
    assert (await read_run(failed)).status == "failed"


@pytest.mark.parametrize("app", ["ferry", "raft"])
async def test_failed_tool_call_is_repeated_on_resume(stage, agents, app):
    session = await stage.session(app)
    failed = await stage.run(session, "call cross")
    assert (failed.status, failed.error) == ("failed", "No boat.")

    (agents / app / "boat").touch()
    assert (await AsyncClient().post(f"/runs/{failed.pk}/resume/")).status_code == 302
    resumed = await newest_ended_run(session)

    assert (resumed.status, resumed.invocation_id) == ("done", failed.invocation_id)
    event_data = [event.data for event in await read_events(session)]
    assert any("cross answered {'result': 'crossed'}" in each for each in event_data)
    assert any("No boat." in each for each in event_data)


async def test_a_private_fork_is_not_spoken_with(stage):
    session = await stage.session("speaker")
    await units_of_work.write(lambda: AgentSession.objects.filter(pk=session.pk).update(realm="fork/1"))
    refused = await AsyncClient().get(f"/runs/live/{session.pk}/")
    assert refused.status_code == 400
    assert "state of its own" in refused.content.decode()
