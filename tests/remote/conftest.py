"""DevUI with remote servers: ADK's own in Python, synthetic ones of other languages, and hostile ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from devui.remote import RemoteAddress, Runtimes
from devui.supervisor import Supervisor
from sessions_app.agents import remotes
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Run
from tests.patience import PATIENCE_S
from tests.web import over, serve

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "agents"


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """A store emptied after the test, whose threads end with it."""
    yield
    units_of_work.close_pools()


@pytest.fixture(autouse=True)
def no_folder(settings: Any) -> Iterator[None]:
    """A server that was given remote servers alone."""
    settings.DEVUI_AGENTS_DIR = ""
    yield
    remotes.clear()


@pytest_asyncio.fixture
async def web(store: None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI."""
    from devui.asgi import application

    async with over(application) as client:
        yield client


@asynccontextmanager
async def connect_runtimes(*value: str, agents_dir: Path | None = None) -> AsyncIterator[Runtimes]:
    """Connect to remote servers as `manage.py web --runtime` does, and look at each once."""
    async with Runtimes(Supervisor(agents_dir), RemoteAddress.read_all(value)) as runtimes:
        runs.register(runtimes)
        try:
            for server in runtimes.servers.values():
                await server.check()
            yield runtimes
        finally:
            runs.register(None)


@asynccontextmanager
async def serve_remote(app: Any, name: str = "far") -> AsyncIterator[Runtimes]:
    """Serve a remote server's application, which does not say what serves it, and connect to it."""
    async with (
        serve(app, server_header=False) as address,
        connect_runtimes(f"{name}=http://{address}") as runtimes,
    ):
        yield runtimes


async def wait_for_end(run_id: str) -> Run:
    """Return a run when it has ended or waits for input."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            run: Run = await units_of_work.read(Run.objects.select_related("session").get, pk=run_id)
            if run.status not in Run.ACTIVE:
                return run
            await asyncio.sleep(0.02)


async def the_session() -> AgentSession:
    """Return the one session that the store has."""
    return await units_of_work.read(AgentSession.objects.select_related("mirrored").get)


async def start_run(web: httpx.AsyncClient, session_key: int, message: Any, **more: Any) -> str:
    """Ask for a run by our own API, and return its id."""
    response = await web.post("/api/v1/runs", json={"session": session_key, "message": message, **more})
    assert response.status_code == 202, response.text
    run_id: str = response.json()["id"]
    return run_id
