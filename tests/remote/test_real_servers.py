"""Real servers: `adk api_server` of Python and JavaScript, and `manage.py web --runtime`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentCard, Event
from tests.api.live_sockets import LIVE_AGENTS, closing_of, ended_run, next_agent_text, text_message
from tests.patience import PATIENCE_S
from tests.ports import find_free_port
from tests.remote.conftest import (
    EXAMPLES,
    connect_runtimes,
    start_run,
    the_session,
    wait_for_end,
)
from tests.required_programs import missing
from tests.runtime.web_command import refusal_of, start_web
from tests.web import serve

pytestmark = pytest.mark.soak

ROOT = Path(__file__).resolve().parents[2]
JAVASCRIPT = Path(os.environ.get("DEVUI_TEST_ADK_JS") or ROOT / ".adk-js").resolve()
"""Where the packages of `javascript/package.json` are installed: `make adk-js` does it."""

AGENT = Path(__file__).parent / "javascript" / "clerk.mjs"
SESSIONS = "/apps/clerk@js/users/ann/sessions"


@contextmanager
def process(arguments: list[str], cwd: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block."""
    running = subprocess.Popen(arguments, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def wait_for(url: str) -> None:
    """Return when a server lists its apps."""
    for _ in range(PATIENCE_S * 10):
        try:
            httpx.get(f"{url}/list-apps", trust_env=False, timeout=PATIENCE_S).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise TimeoutError(url)


@contextmanager
def python_server(agents: Path = EXAMPLES) -> Iterator[str]:
    """Run `adk api_server` on a folder of agents, with its sessions in memory."""
    port = find_free_port()
    adk = [sys.executable, "-c", "from google.adk.cli import main; main()", "api_server", "--port", str(port)]
    # By itself it leaves files beside the agents.
    memory = ["--session_service_uri", "memory://", "--artifact_service_uri", "memory://"]
    with process([*adk, *memory, str(agents)]):
        wait_for(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def javascript(tmp_path: Path) -> Iterator[str]:
    """The server of `@google/adk-devtools` with an agent that needs no model."""
    node, modules = shutil.which("node"), JAVASCRIPT / "node_modules"
    if not node:
        missing("there is no Node on the path, which ADK for JavaScript needs")
    if not (modules / "@google" / "adk-devtools").is_dir():
        missing(f"ADK for JavaScript is not in {JAVASCRIPT} (make adk-js, or DEVUI_TEST_ADK_JS)")
    agent = tmp_path / "agents" / "clerk"
    agent.mkdir(parents=True)
    shutil.copy(AGENT, agent / "agent.js")
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    port = find_free_port()
    adk = str(modules / ".bin" / "adk")
    with process([node, adk, "api_server", "-h", "127.0.0.1", "-p", str(port), "agents"], cwd=tmp_path):
        wait_for(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"


async def test_the_real_server_of_javascript_is_recorded(web, javascript):
    async with connect_runtimes(f"js={javascript}") as runtimes:
        server = runtimes.servers["js"]
        assert server.remote.language == "js"
        assert (await web.get("/list-apps")).json() == ["clerk@js"]
        await server.wait_until_synchronized()
        card: AgentCard = await units_of_work.read(AgentCard.objects.get, app_name="clerk@js")
        assert [tool["name"] for tool in json.loads(card.description)["tools"]] == ["book", "leave"]

        await web.post(SESSIONS, json={"sessionId": "s1", "state": {"n": 1}})
        key = (await the_session()).pk
        run = await wait_for_end(await start_run(web, key, "book Oslo", streaming=True))
        assert (run.status, run.error) == ("done", "")
        session = (await web.get(f"{SESSIONS}/s1")).json()
        there = (await asyncio.to_thread(kept_there, javascript)).json()
        assert [event["id"] for event in session["events"]] == [event["id"] for event in there["events"]]
        assert [round(event["timestamp"] * 1000) for event in session["events"]] == [
            event["timestamp"] for event in there["events"]
        ]
        assert session["state"] == there["state"] == {"n": 1, "city": "Oslo", "user:home": "Oslo"}
        assert (await the_session()).mirrored.behind == ""

        waiting = await wait_for_end(await start_run(web, key, "leave"))
        assert waiting.status == "waiting"
        call = await units_of_work.read(_waiting_call)
        answer = {"functionResponse": {"id": call, "name": "leave", "response": {"status": "granted"}}}
        answered = await wait_for_end(await start_run(web, key, {"role": "user", "parts": [answer]}))
        assert (answered.status, answered.error) == ("done", "")
        assert (await wait_for_end(waiting.pk)).status == "done"

        failed = await wait_for_end(await start_run(web, key, "fail"))
        assert (failed.status, failed.error) == ("failed", "kaput")
        again = await web.post(SESSIONS, json={"sessionId": "s1"})
        assert again.status_code == 409

        await web.post(SESSIONS, json={"sessionId": "s2"})
        listed = (await web.get(SESSIONS)).json()
        assert sorted(item["id"] for item in listed) == ["s1", "s2"]


async def test_the_real_server_of_javascript_is_cancelled(web, javascript):
    async with connect_runtimes(f"js={javascript}") as runtimes:
        await web.post(SESSIONS, json={"sessionId": "s1"})
        run_id = await start_run(web, (await the_session()).pk, "wait", streaming=True)
        client = await runtimes.client("clerk@js")
        async for frame in client.stream(run_id):
            if frame["type"] == "chunk":
                break
        assert frame["text"] == "Do"
        cancelled = await web.post(f"/api/v1/runs/{run_id}/cancel")
        assert cancelled.json()["status"] == "cancelled"


def kept_there(url: str) -> httpx.Response:
    return httpx.get(f"{url}/apps/clerk/users/ann/sessions/s1", trust_env=False)


def _waiting_call() -> str:
    events = Event.objects.order_by("-seq").values_list("data", flat=True)
    id_lists = (json.loads(data).get("longRunningToolIds") for data in events)
    call_id: str = next(ids[0] for ids in id_lists if ids)
    return call_id


async def test_real_python_server_is_recorded_and_may_die(web):
    with python_server() as url:
        async with connect_runtimes(f"py={url}") as runtimes:
            await web.post("/apps/weather@py/users/ann/sessions", json={"sessionId": "s1"})
            key = (await the_session()).pk
            question = "What is the weather in Paris?"
            run = await wait_for_end(await start_run(web, key, question, streaming=True))
            assert (run.status, run.error) == ("done", "")
            session = (await web.get("/apps/weather@py/users/ann/sessions/s1")).json()
            there = (await asyncio.to_thread(httpx.get, f"{url}/apps/weather/users/ann/sessions/s1")).json()
            assert session == there | {"appName": "weather@py"}
            runtimes.servers["py"].http.base = "http://127.0.0.1:1"  # nobody listens there: it is gone
            lost_run = await wait_for_end(await start_run(web, key, question))
            assert (lost_run.status, lost_run.error_type) == ("failed", "NotReached")
            assert (await web.get("/")).status_code == 200


async def test_real_python_server_has_live_runs(web):
    from devui.asgi import application

    with python_server(LIVE_AGENTS) as url:
        async with connect_runtimes(f"py={url}"), serve(application) as here:
            await web.post("/apps/parrot@py/users/ann/sessions", json={"sessionId": "s1"})
            query = "app_name=parrot@py&user_id=ann&session_id=s1&modalities=TEXT"
            async with connect(
                f"ws://{here}/run_live?{query}", proxy=None, open_timeout=PATIENCE_S
            ) as socket:
                await socket.send(text_message("hello"))
                assert await next_agent_text(socket) == "heard hello"
                await until_stored("user", "parrot")  # the server takes its sessions with it
                await socket.send(text_message("die"))
                code, reason = await closing_of(socket)
            assert (code, "broke the live connection" in reason) == (1011, True)
            run = await ended_run()
            assert (run.status, run.error_type) == ("failed", "NotReached")


async def until_stored(*authors: str) -> None:
    """Return when the first events that are stored are of these authors."""

    def stored() -> tuple[str, ...]:
        return tuple(Event.objects.order_by("seq").values_list("author", flat=True)[: len(authors)])

    async with asyncio.timeout(PATIENCE_S):
        while await units_of_work.read(stored) != authors:  # noqa: ASYNC110 - only the store knows
            await asyncio.sleep(0.02)


class Web:
    """`manage.py web` in a process of its own."""

    def __init__(self, *arguments: str, store: Path, **environment: str) -> None:
        self.process = start_web(*arguments, "--port", "0", store=store, **environment)
        assert self.process.stdout is not None
        self.output = ""
        for line in self.process.stdout:
            self.output += line
            if match := re.search(r"on (http://\S+)/ \(Ctrl-C", line):
                self.url = match[1]
                return
        raise AssertionError(self.output)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, trust_env=False, timeout=PATIENCE_S)

    def post(self, path: str, body: Any) -> httpx.Response:
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"}
        return httpx.post(self.url + path, json=body, headers=headers, trust_env=False, timeout=PATIENCE_S)

    def end(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=PATIENCE_S)[0]


def test_the_web_serves_remote_agents_without_a_folder(tmp_path):
    off = find_free_port()
    with python_server() as url:
        more = f"off=http://ann:hunter2@127.0.0.1:{off}"
        web = Web("--runtime", f"py={url}", store=tmp_path / "web.sqlite3", DEVUI_RUNTIMES=more)
        try:
            assert f"those of py at {url}" in web.output
            for _ in range(PATIENCE_S * 10):
                if "weather@py" in (apps := web.get("/list-apps").json()):
                    break
                time.sleep(0.1)
            assert apps == [
                f"{name}@py" for name in ("helper", "office", "shop", "team", "weather", "writer")
            ]
            home = web.get("/").text
            assert "the connection was refused" in home
            created = web.post("/apps/weather@py/users/ann/sessions", {"sessionId": "s1"})
            assert created.status_code == 200, created.text
            message = {"role": "user", "parts": [{"text": "Hello"}]}
            session_fields = {"appName": "weather@py", "userId": "ann", "sessionId": "s1"}
            assert len(web.post("/run", session_fields | {"newMessage": message}).json()) == 1
            page = web.get("/sessions/weather@py/ann/s1/")
            assert page.status_code == 200
            assert url in page.text
        finally:
            output = web.output + web.end()
    assert "hunter2" not in output + home


@pytest.mark.parametrize("value", ["nonsense", "go=ftp://ann:hunter2@host"])
def test_invalid_server_is_refused_in_one_line(tmp_path, value):
    line = refusal_of("--runtime", value, store=tmp_path / "web.sqlite3")
    assert "--runtime NAME=URL" in line
    assert "hunter2" not in line
