"""Web processes and workers of the test's own, on a database of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
from websockets.asyncio.client import connect

from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.required_programs import missing
from tests.runtime.web_command import ROOT

MAX_PAUSE_S = 0.5
HTTP = httpx.Client(timeout=PATIENCE_S, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
"""Reads the certificate authorities once, not at each request, and finds no connection closed by a kill."""
ACTIVE = ("queued", "running", "pending")


def postgres_server() -> str:
    """Return the URL of the PostgreSQL server of teams, without a database."""
    url = os.environ.get("DEVUI_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/devui")
    return url.rpartition("/")[0]


@contextmanager
def own_database() -> Iterator[str]:
    """Create a database and drop it afterwards; yield its URL."""
    server, name = postgres_server(), f"test_team_{uuid.uuid4().hex[:12]}"
    try:
        admin = psycopg.connect(f"{server}/postgres", autocommit=True, connect_timeout=3)
    except psycopg.Error as error:
        missing(f"no PostgreSQL answers at {server} (DEVUI_TEST_POSTGRES): {error}")
    with admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        admin.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    try:
        yield f"{server}/{name}"
    finally:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def team_environment(database: str, folder: Path) -> dict[str, str]:
    """Return the environment of a team's processes."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DEVUI_")}
    return {
        **inherited,
        "DATABASE_URL": database,
        "DEVUI_DATA_DIR": str(folder / "data"),
        "DEVUI_ENGINE": "procrastinate",
        "DEVUI_SECRET_KEY": "a secret of the tests",
    }


class Member:
    """A process of a team."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    def first_line(self, words: str) -> str:
        """Wait for a line with these words and return it."""
        for _ in range(PATIENCE_S * 20):
            lines = [line for line in self.log.read_text().splitlines() if words in line]
            if lines:
                return lines[0]
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the process; return its status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


class Web(Member):
    """A web process. `url` has no slash at its end."""

    client = HTTP

    @property
    def url(self) -> str:
        return self.first_line(" on http://").rpartition(" on ")[2].partition("/ ")[0]

    def get(self, path: str) -> Any:
        answer = self.client.get(self.url + path)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None) -> Any:
        answer = self.client.post(self.url + path, json=body or {})
        assert answer.is_success, answer.text
        return answer.json()

    def session(self, app: str = "talker") -> int:
        """Create a session and return its key."""
        response = self.post(f"/apps/{app}/users/ann/sessions")
        listed = self.get(f"/api/v1/sessions?app={app}")["sessions"]
        return next(row["key"] for row in listed if row["id"] == response["id"])

    def run(self, session: int, text: str) -> str:
        """Start a run; return its id."""
        return str(self.post("/api/v1/runs", {"session": session, "message": text, "streaming": True})["id"])

    def status(self, run_id: str) -> str:
        return str(self.get(f"/api/v1/runs/{run_id}")["status"])

    def end_of(self, run_id: str) -> dict[str, Any]:
        """Wait until a run has ended and return it."""
        return wait_for(lambda: self.get(f"/api/v1/runs/{run_id}"), lambda run: run["status"] not in ACTIVE)

    def id_of(self, worker: Member) -> str:
        """Return the id of a worker's process."""
        workers = self.get("/api/v1/workers")["workers"]
        return next(row["id"] for row in workers if row["pid"] == worker.process.pid)

    def remove(self, worker_id: str) -> int:
        """Remove a worker; return the status of the answer."""
        return self.client.delete(f"{self.url}/api/v1/workers/{worker_id}").status_code

    def eval_run(self, evalset: str = "talk", **order: Any) -> str:
        """Start an eval run of the talker; return its id."""
        body = {
            "app": "talker",
            "evalset": evalset,
            "criteria": {"response_match_score": 0.9},
            **order,
        }
        return str(self.post("/api/v1/evals/runs", body)["id"])

    def eval_facts(self, run_id: str) -> dict[str, Any]:
        facts: dict[str, Any] = self.get(f"/api/v1/evals/runs/{run_id}")
        return facts

    def end_of_evals(self, run_id: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """Wait until an eval run has ended and return its facts."""
        facts: dict[str, Any] = wait_for(
            lambda: self.eval_facts(run_id), lambda run: run["status"] not in ACTIVE, patience_s
        )
        return facts

    @asynccontextmanager
    async def page(self, session: int) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Open the socket of a session's page; yield its messages."""
        address = self.url.removeprefix("http://")
        async with connect(
            f"ws://{address}/ws/sessions/{session}/?after=0", origin=self.url, proxy=None, max_size=None
        ) as socket:

            async def messages() -> AsyncIterator[dict[str, Any]]:
                async for text in socket:
                    yield json.loads(text)

            yield messages()


def read_rows(database: str, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement in a database, by its URL."""
    with psycopg.connect(database, autocommit=True) as connection:
        return connection.execute(statement).fetchall()  # type: ignore[call-overload]  # psycopg wants literal SQL


class Team:
    """The processes of a test. `environment`: further variables of all of them."""

    def __init__(
        self, folder: Path, database: str, agents: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.agents = agents
        self.database = database
        self._more_environment = environment or {}
        self._folder = folder
        self._members: list[Member] = []

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that starts now."""
        return {**team_environment(self.database, self._folder), **self._more_environment}

    def start_web(self) -> Web:
        web = Web(*self._start("web", str(self.agents), "--port", "0"))
        self._members.append(web)
        return web

    def start_worker(
        self,
        *arguments: str,
        agents: Path | None = None,
        host: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Member:
        """Start a worker. `host`: on a host of this name; `environment`: further variables."""
        command = ("worker", str(agents or self.agents), *arguments)
        worker = Member(*self._start(*command, host=host, environment=environment))
        self._members.append(worker)
        return worker

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return rows of the database."""
        return read_rows(self.database, statement)

    def await_workers(self, number: int) -> None:
        """Wait until so many workers take jobs."""
        for member in self._members:
            if not isinstance(member, Web) and member.process.poll() is None:
                member.first_line("Worker with")
        count = "SELECT count(*) FROM devui_workers_worker WHERE engine_id IS NOT NULL"
        wait_for(lambda: self.rows(count)[0][0], lambda row_count: row_count >= number)

    def end(self) -> None:
        for member in self._members:
            if member.process.poll() is None:
                member.process.send_signal(signal.SIGCONT)
                member.process.kill()
                member.process.wait(PATIENCE_S)
            print(f"== {member.log.name}\n{member.log.read_text()}")

    def _start(
        self, *command: str, host: str = "", environment: Mapping[str, str] | None = None
    ) -> tuple[subprocess.Popen[str], Path]:
        log = self._folder / f"{len(self._members)}-{command[0]}.log"
        start = [sys.executable, str(ROOT / "manage.py"), *command]
        popen: type[subprocess.Popen[str]] = forked_processes.Popen
        if host:
            script = f'hostname {host} && exec "$@"'
            start, popen = ["unshare", "--uts", "sh", "-c", script, "sh", *start], subprocess.Popen
        with log.open("w") as output:
            process = popen(
                start,
                env={**self.environment, **(environment or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=ROOT,
            )
        return process, log


def wait_for(read: Callable[[], Any], holds: Callable[[Any], bool], patience_s: float = PATIENCE_S) -> Any:
    """Read until what was read holds, and return it."""
    start = time.monotonic()
    while not holds(value := read()):
        waited_s = time.monotonic() - start
        assert waited_s < patience_s, value
        pause_s = min(max(waited_s / 20, 0.05), MAX_PAUSE_S)  # each reading takes time of those waited for
        time.sleep(pause_s)
    return value


async def streamed(messages: AsyncIterator[dict[str, Any]], words: str) -> str:
    """Return the streaming text of a page that first has these words."""
    async with asyncio.timeout(PATIENCE_S):
        async for message in messages:
            if message["type"] == "pending" and words in message["html"]:
                return str(message["html"])
    raise AssertionError("The socket closed before the text streamed.")
