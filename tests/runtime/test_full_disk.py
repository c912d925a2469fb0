"""A full disk: the server reports it, no process ends, and all continues when there is space."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection  # noqa: F401 - read by skipif

from sessions_app.agent_processes import processes
from tests.patience import PATIENCE_S
from tests.runtime.conftest import until
from tests.runtime.stage_server import serve_stage, start_server
from tests.sessions.faults.small_disk import mount_disk

pytestmark = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the store is a file")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB."""
    with mount_disk(tmp_path / "disk", 24) as folder:
        yield folder


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Leave not one byte of the disk inside the block."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    assert shutil.disk_usage(disk).free == 0
    yield
    ballast.unlink()


class Client:
    """A client of a server with one session."""

    def __init__(self, url: str) -> None:
        self.web = httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False)

    async def begin(self) -> None:
        await self.web.post("/apps/talker/users/ann/sessions", json={"sessionId": "s1"})
        listed = (await self.web.get("/api/v1/sessions?app=talker")).json()
        [self.session] = [session["key"] for session in listed["sessions"]]

    async def send(self, text: str) -> httpx.Response:
        body = {"session": self.session, "message": text, "streaming": True}
        return await self.web.post("/api/v1/runs", json=body)

    async def run(self, run_id: str) -> dict[str, Any]:
        return dict((await self.web.get(f"/api/v1/runs/{run_id}")).json())

    async def ended(self, run_id: str) -> dict[str, Any]:
        ended = await until(lambda: self.run(run_id), lambda run: run["status"] not in {"queued", "running"})
        return dict(ended)


def children(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(child) for child in listed.stdout.split()]


@pytest.mark.soak
async def test_a_full_disk_ends_neither_the_server_nor_an_agents_process(disk: Path, tmp_path: Path):
    with serve_stage(f"sqlite:///{disk}/store.sqlite3", tmp_path) as (process, url):
        client = Client(url)
        await client.begin()
        assert (await client.ended((await client.send("say hello")).json()["id"]))["status"] == "done"
        [runtime] = await asyncio.to_thread(children, process.pid)
        first_run = (await client.send("say " + " ".join(f"w{number}" for number in range(40)))).json()["id"]
        await until(lambda: client.run(first_run), lambda run: run["status"] == "running")
        with full(disk):
            refused = await client.send("say " + "x" * 500_000)
            assert (refused.status_code, refused.json()["code"]) == (507, "store_full")
            assert "Free space" in refused.json()["hint"]
            assert (await client.web.get("/", headers={"Accept": "text/html"})).status_code == 200
            await until(
                partial(read_log, tmp_path), lambda text: "Retrying until the store accepts the write" in text
            )
            assert processes.identity(runtime) is not None
        run = await client.ended(first_run)
        assert run["status"] == "done" or (run["status"], run["error_type"]) == ("failed", "StoreFull")
        assert (await client.ended((await client.send("say bye")).json()["id"]))["status"] == "done"
        assert await asyncio.to_thread(children, process.pid) == [runtime]
        await client.web.aclose()


MESSAGE = {"role": "user", "parts": [{"text": "say hello"}]}
RUN = {"appName": "talker", "userId": "ann", "sessionId": "s1", "newMessage": MESSAGE}
PICTURE = {
    "filename": "p.txt",
    "artifact": {"inlineData": {"mimeType": "text/plain", "data": "eHh4" * 100_000}},
}


@pytest.mark.soak
async def test_waiting_callers_are_refused_on_full_disk_and_no_run_stays_active(disk: Path, tmp_path: Path):
    with serve_stage(f"sqlite:///{disk}/store.sqlite3", tmp_path) as (_, url):
        client = Client(url)
        await client.begin()
        assert (await client.web.post("/run", json=RUN)).status_code == 200
        with full(disk):
            for _ in range(3):
                answer = await client.web.post("/run", json=RUN)
                assert answer.status_code in {200, 507}, answer.text
                if answer.status_code == 507:
                    assert (answer.json()["code"], "Free space" in answer.json()["hint"]) == (
                        "store_full",
                        True,
                    )
            streamed = await client.web.post("/run_sse", json=RUN)
            assert streamed.status_code == 507 or "StoreFull" in streamed.text or "hello" in streamed.text
            path = "/apps/talker/users/ann/sessions/s1/artifacts"
            upload = await client.web.post(path, json=PICTURE)
            assert (upload.status_code, upload.json()["code"]) == (507, "store_full")

        async def active_runs() -> list[Any]:
            listed = (await client.web.get("/api/v1/runs?limit=200")).json()["runs"]
            return [run for run in listed if run["status"] in {"queued", "running"}]

        await until(active_runs, lambda runs: not runs)
        assert (await client.web.post("/run", json=RUN)).status_code == 200
        await client.web.aclose()


@pytest.mark.soak
def test_server_starting_on_full_disk_reports_it(disk: Path, tmp_path: Path):
    store = f"sqlite:///{disk}/store.sqlite3"
    with serve_stage(store, tmp_path) as (_, url):
        assert httpx.get(f"{url}/health", timeout=PATIENCE_S, trust_env=False).status_code == 200
    with full(disk):
        process, log = start_server(store, tmp_path)
        assert process.wait(timeout=PATIENCE_S) == 2
        [texts] = [line for line in log.read_text().splitlines() if line.startswith("CommandError")]
    assert "has no space left" in texts
    assert "Free space on its disk" in texts


async def read_log(folder: Path) -> str:
    return await asyncio.to_thread((folder / "server.log").read_text)
