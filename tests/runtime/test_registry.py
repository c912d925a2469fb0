"""DevUI's services by URI in ADK's own server."""

from __future__ import annotations

import base64
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.ports import find_free_port

ROOT = Path(__file__).resolve().parents[2]
SERVICES = "from devui.runtime.registry import register\n\nregister()\n"
AGENT = """
from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.genai import types


class Echo(BaseAgent):
    async def _run_async_impl(self, ctx):
        text = ctx.user_content.parts[0].text
        content = types.Content(role="model", parts=[types.Part(text=f"heard {text}")])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Echo(name="echo")
"""
START_S = 120


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """A folder of one agent, with the two lines that make the URI known."""
    folder = tmp_path / "agents"
    (folder / "echo").mkdir(parents=True)
    (folder / "echo" / "__init__.py").write_text("from . import agent\n")
    (folder / "echo" / "agent.py").write_text(AGENT)
    (folder / "services.py").write_text(SERVICES)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "store" / "sessions.sqlite3"


@pytest.fixture
def adk(agents: Path, store: Path) -> Iterator[httpx.Client]:
    """A client of `adk api_server` on the store."""
    port = find_free_port()
    kinds = ("session", "artifact", "memory")
    uris = [f"--{kind}_service_uri=devui://" for kind in kinds]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DATABASE_URL": f"sqlite:///{store}"}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    plugin = "--extra_plugins=sessions_app.adk.Recorder"
    command = [sys.executable, "-m", "google.adk.cli", "api_server", *uris, plugin, "--port", str(port)]
    process = forked_processes.Popen([*command, str(agents)], cwd=store.parent.parent, env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=PATIENCE_S) as client:
            wait_for(client, process)
            yield client
    finally:
        process.terminate()
        process.wait()


def wait_for(client: httpx.Client, process: forked_processes.Popen) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert process.poll() is None, "`adk api_server` ended while it started"
        try:
            client.get("/health").raise_for_status()
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("`adk api_server` did not start")


def rows(store: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(store) as database:
        return database.execute(query).fetchall()


def test_adks_own_server_uses_the_store_for_all_services(adk, store):
    sessions = "/apps/echo/users/ann/sessions"
    session = adk.post(sessions, json={"sessionId": "s1", "state": {"n": 1}}).json()
    assert session["state"] == {"n": 1}
    message = {"role": "user", "parts": [{"text": "hello"}]}
    body = {"appName": "echo", "userId": "ann", "sessionId": "s1", "newMessage": message}
    assert adk.post("/run", json=body).json()[0]["content"]["parts"][0]["text"] == "heard hello"
    data = base64.b64encode(b"text").decode()
    part = {"inlineData": {"mimeType": "text/plain", "data": data}}
    saved = adk.post(f"{sessions}/s1/artifacts", json={"filename": "a.txt", "artifact": part})
    assert saved.json()["version"] == 0
    assert adk.patch("/apps/echo/users/ann/memory", json={"sessionId": "s1"}).status_code == 200
    assert rows(store, "SELECT app_name, user_id, session_id FROM sessions_app_agentsession") == [
        ("echo", "ann", "s1")
    ]
    assert rows(store, "SELECT author FROM sessions_app_event ORDER BY seq") == [("user",), ("echo",)]
    assert rows(store, "SELECT count(*) FROM sessions_app_artifact") == [(1,)]
    assert rows(store, "SELECT count(*) FROM sessions_app_memoryentry")[0][0] > 0
