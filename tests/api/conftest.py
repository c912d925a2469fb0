"""Fixtures: DevUI's web process, and ADK's own server as oracle or as upstream."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from devui.supervisor import Supervisor
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Run
from tests import forked_processes
from tests.api.peer import Peer, PeerProvider, adk_server
from tests.patience import PATIENCE_S
from tests.store import store_url
from tests.web import over, serve

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "agents"
AGENTS = Path(__file__).parent / "agents"


@pytest.fixture(autouse=True)
def agents_dir(settings: Any) -> Path:
    """The example agents."""
    settings.DEVUI_AGENTS_DIR = str(EXAMPLES)
    return EXAMPLES


@pytest_asyncio.fixture
async def web(store: None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI."""
    from devui.asgi import application

    async with over(application) as client:
        yield client


@pytest.fixture(scope="module")
def oracle() -> tuple[Any, InMemorySessionService]:
    """ADK's own development server over ADK's own services in memory, which takes a while to make, and its sessions."""
    service = InMemorySessionService()
    return adk_server(EXAMPLES, service), service


@pytest_asyncio.fixture
async def adk(oracle: tuple[Any, InMemorySessionService]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of ADK's own development server, without sessions."""
    server, service = oracle
    for mapping in (service.sessions, service.user_state, service.app_state):
        mapping.clear()
    async with over(server) as client:
        yield client


@contextmanager
def peer_process(folder: Path, agents: Path) -> Iterator[Peer]:
    """Run ADK's own server over the test's store, in a process of its own, on a unix socket."""
    socket = folder / "adk.sock"
    # ADK trusts only loopback peers with its development paths, and sees none on a unix socket.
    environment = {**os.environ, "DATABASE_URL": store_url(), "ADK_ALLOW_REMOTE_AGENT_BUILDER": "1"}
    command = [sys.executable, "-m", "tests.api.peer", str(socket), str(agents)]
    process = forked_processes.Popen(command, cwd=ROOT, env=environment)
    try:
        yield Peer(socket, process)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def shared_peer(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> Iterator[Peer]:
    """ADK's own server for the tests of a module."""
    with peer_process(tmp_path_factory.mktemp("peer"), AGENTS) as peer:
        peer.wait()
        yield peer


@pytest.fixture
def peer(shared_peer: Peer) -> Iterator[Peer]:
    """ADK's own server, registered as what runs the agents."""
    runs.register(PeerProvider(shared_peer, ["broken", "slow"]))
    yield shared_peer
    runs.register(None)


@pytest.fixture
def start_peer(tmp_path: Path, store: None) -> Iterator[Callable[[], Peer]]:
    """Starts a server of ADK's that a test may kill."""
    with ExitStack() as stack:

        def start() -> Peer:
            peer = stack.enter_context(peer_process(tmp_path, AGENTS))
            peer.wait()
            runs.register(PeerProvider(peer, ["slow"]))
            stack.callback(runs.register, None)
            return peer

        yield start


@asynccontextmanager
async def served_client() -> AsyncIterator[httpx.AsyncClient]:
    """Serve DevUI and yield a client of the server, which notices when a client goes away."""
    from devui.asgi import application

    async with (
        serve(application) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=PATIENCE_S) as client,
    ):
        yield client


@pytest_asyncio.fixture
async def http_client(store: None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI behind a real server."""
    async with served_client() as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_client(module_store: None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI behind a real server that the module's tests share."""
    async with served_client() as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_supervisor(request: pytest.FixtureRequest, module_store: None) -> AsyncIterator[Supervisor]:
    """Supervisor of the processes of the agents in the folder `SUPERVISED` of the module."""
    with forked_processes.starts():
        async with Supervisor(
            request.module.SUPERVISED, environment={"DATABASE_URL": store_url()}
        ) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def supervisor(shared_supervisor: Supervisor) -> AsyncIterator[Supervisor]:
    """The module's supervisor, registered as `manage.py web` does, and no runs of other tests."""
    runs.register(shared_supervisor)
    yield shared_supervisor
    runs.register(None)
    await units_of_work.write(Run.objects.all().delete)
