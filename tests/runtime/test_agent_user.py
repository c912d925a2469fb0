"""Agents that run as another system user than the server."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from sessions_app.store.artifacts.content_files import MAX_INLINE_BYTES
from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.required_programs import missing
from tests.runtime.conftest import copy_of_stage
from tests.runtime.web_command import ROOT
from tests.workers.team import Web, own_database

USER = "nobody"
SECRET = "login-of-others.json"
LARGE = MAX_INLINE_BYTES + 1
AGENT = '''
import os
import psycopg
from acting import Acting
from google.adk.agents import LlmAgent
from google.genai import types


def tell_user() -> dict:
    """Return who runs this."""
    password = os.environ.get("PGPASSWORD")
    return {"user": os.getuid(), "groups": os.getgroups(), "home": os.environ["HOME"], "password": password}


def read_file(path: str) -> str:
    """Read a file."""
    try:
        with open(path.replace("PARENT", str(os.getppid())), "rb") as file:
            return repr(file.read())
    except OSError as error:
        return type(error).__name__


def query(table: str) -> str:
    """Read a table of the store."""
    try:
        with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
            return str(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except psycopg.Error as error:
        return type(error).__name__


async def save_large(size: int, tool_context) -> str:
    """Save a large artifact."""
    await tool_context.save_artifact("large.bin", types.Part.from_bytes(data=b"a" * size, mime_type="image/png"))
    return "saved"


async def load_size(name: str, tool_context) -> int:
    """Return the size of an artifact."""
    return len((await tool_context.load_artifact(name)).inline_data.data)


root_agent = LlmAgent(name="spy", model=Acting(), tools=[tell_user, read_file, query, save_large, load_size])
'''

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes as another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can read: pytest's own are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="devui-agents-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def database() -> Iterator[tuple[str, str]]:
    """A database of its own: its URL for the server, and for agents."""
    role = f"test_agents_{uuid.uuid4().hex[:12]}"
    with own_database() as url:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("CREATE TABLE passwords (hash text)")
            admin.execute(f"CREATE ROLE {role} LOGIN")
        yield url, url.replace("postgres@", f"{role}@")
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"DROP OWNED BY {role}")
            admin.execute(f"DROP ROLE {role}")


def python_of_everybody() -> tuple[str, str]:
    """Return a Python that every user can start, and the folder of its packages."""
    number = f"{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, f"/usr/bin/python{number}"):
        with contextlib.suppress(OSError):
            if subprocess.run([program, "-c", ""], user=USER, check=False).returncode == 0:
                return program, sysconfig.get_path("purelib")
    missing(f"no Python {number} that the user {USER} can start")


def environment(folder: Path, urls: tuple[str, str], **changed: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DEVUI_")}
    return {
        **inherited,
        "PYTHONPATH": python_of_everybody()[1],
        "DATABASE_URL": urls[0],
        "DEVUI_DATA_DIR": str(folder / "data"),
        "DEVUI_AGENT_USER": USER,
        "DEVUI_AGENT_DATABASE_URL": urls[1],
        **changed,
    }


@pytest.fixture
def web(folder: Path, database: tuple[str, str]) -> Iterator[Web]:
    """A server that runs agents as another user."""
    agents = copy_of_stage(folder)
    (agents / "spy").mkdir()
    (agents / "spy" / "agent.py").write_text(AGENT)
    (agents / "spy" / "__init__.py").write_text("from . import agent\n")
    (folder / "data").mkdir(mode=0o700)
    secret = folder / "data" / SECRET
    secret.write_text("a secret")
    secret.chmod(0o600)
    log = folder / "web.log"
    command = [python_of_everybody()[0], "-m", "devui", "web", str(agents), "--port", "0"]
    with log.open("w") as output:
        process = forked_processes.Popen(
            command,
            cwd=ROOT,
            env=environment(folder, database, PGPASSWORD="of the server"),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        yield Web(process, log)
        process.terminate()
        process.wait(PATIENCE_S)
    finally:
        process.kill()


def answer(web: Web, key: int, call: str) -> Any:
    """Let the agent call a tool; return the tool's result."""
    run = web.end_of(web.run(key, f"call {call}"))
    assert run["status"] == "done", run
    session = web.get(session_path(web, key))
    responses = [
        part["functionResponse"]["response"]
        for event in session["events"]
        for part in event["content"]["parts"]
        if "functionResponse" in part
    ]
    return responses[-1].get("result", responses[-1])


def session_path(web: Web, key: int) -> str:
    """Return the path of a session in ADK's API."""
    return f"/apps/spy/users/ann/sessions/{web.get(f'/api/v1/sessions/{key}')['id']}"


@pytest.mark.soak
def test_agents_of_another_user_work_and_reach_nothing_of_the_server(web, folder):
    session = web.session("spy")
    who = answer(web, session, "tell_user {}")
    assert who["user"] != 0
    assert 0 not in who["groups"]
    assert who["password"] is None

    secret = folder / "data" / SECRET
    assert answer(web, session, f'read_file {{"path": "{secret}"}}') == "PermissionError"
    assert answer(web, session, 'read_file {"path": "/proc/PARENT/environ"}') == "PermissionError"
    assert answer(web, session, 'query {"table": "passwords"}') == "InsufficientPrivilege"
    assert answer(web, session, 'query {"table": "sessions_app_agentsession"}') == "1"

    assert answer(web, session, f'save_large {{"size": {LARGE}}}') == "saved"
    artifacts = f"{web.url}{session_path(web, session)}/artifacts"
    saved = httpx.get(f"{artifacts}/large.bin", trust_env=False).json()
    assert len(base64.urlsafe_b64decode(saved["inlineData"]["data"])) == LARGE
    data = base64.b64encode(b"b" * LARGE).decode()
    upload = {"filename": "mine.bin", "artifact": {"inlineData": {"data": data, "mimeType": "image/png"}}}
    assert httpx.post(artifacts, json=upload, trust_env=False).is_success
    assert answer(web, session, 'load_size {"name": "mine.bin"}') == LARGE


@pytest.mark.soak
def test_server_refuses_another_user_that_cannot_work(folder, database):
    agents = copy_of_stage(folder)
    for changed, line in (
        ({"DEVUI_AGENT_USER": ""}, "only with DEVUI_AGENT_USER, DEVUI_AGENT_DATABASE_URL and PostgreSQL"),
        ({"DATABASE_URL": ""}, "only with DEVUI_AGENT_USER, DEVUI_AGENT_DATABASE_URL and PostgreSQL"),
        (
            {"DEVUI_AGENT_USER": "no-such-user"},
            "DEVUI_AGENT_USER='no-such-user' is not a user of this system",
        ),
        (
            {"DEVUI_AGENT_DATABASE_URL": database[0].replace("postgres@", "strangers@")},
            "PostgreSQL has no role 'strangers', which DEVUI_AGENT_DATABASE_URL names",
        ),
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "devui", "web", str(agents), "--port", "0"],
            cwd=ROOT,
            env=environment(folder, database, **changed),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 2
        assert line in ended.stderr
        assert len(ended.stderr.splitlines()) == 1, ended.stderr
