"""Real runtime processes over the tests' store, with agents that tests write."""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from django.conf import settings

from devui.runtime.config import RuntimeOptions
from devui.supervisor import Supervisor, SupervisorLimits
from sessions_app.agent_processes import processes
from sessions_app.delivery import deliveries as delivery_module
from sessions_app.delivery.deliveries import TAKE_S, deliveries
from sessions_app.runs import lifecycle
from sessions_app.runs.run_delivery import RunDelivery
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.writes import SessionKey
from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.store import store_url

STAGE = Path(__file__).parent / "stage"
STAGE_APPS = ["broken", "group.inner", "handy", "napper", "patient", "talker", "trouble", "written"]
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """The tests' store, which runtime processes write to as well; emptied after the test."""
    yield
    units_of_work.close_pools()


def copy_of_stage(folder: Path) -> Path:
    """Copy the stage's agents to a folder."""
    return Path(shutil.copytree(STAGE, folder / "agents", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def agents_dir(tmp_path: Path) -> Path:
    """A copy of the stage, for the test to change."""
    return copy_of_stage(tmp_path)


class Stage:
    """A supervisor and what tests do with it."""

    def __init__(self, supervisor: Supervisor, lines: list[str]) -> None:
        self.supervisor = supervisor
        self.lines = lines

    async def wait_for_output(self, words: str, since: int = 0) -> list[str]:
        """Return what was logged from line `since` on, once a line has these words: it comes through a pipe."""

        async def lines() -> list[str]:
            return self.lines[since:]

        matching_lines: list[str] = await until(lines, lambda now: any(words in line for line in now))
        return matching_lines

    async def session(self, app: str) -> AgentSession:
        """Create a session of the usual user."""
        return await units_of_work.write(writes.create_session, SessionKey("", app, "ann", uuid.uuid4().hex))

    async def queue(self, session: AgentSession, text: str, **request: Any) -> Run:
        """Queue a run that says `text`."""
        message = {"role": "user", "parts": [{"text": text}]}
        return await units_of_work.write(
            lifecycle.create_run, session.pk, {"new_message": message, **request}
        )

    async def start(self, session: AgentSession, text: str, **request: Any) -> Run:
        """Queue a run and deliver it."""
        run = await self.queue(session, text, **request)
        await self.deliver(run)
        return run

    async def deliver(self, run: Run) -> None:
        """Deliver a queued run to the process of its app."""
        app_name = (await read_run(run)).session.app_name
        await deliveries.deliver(RunDelivery(app_name, run.pk, self.supervisor))

    async def block(self, session: AgentSession) -> Run:
        """Start a run of the napper whose tool blocks its process, and return it once it does."""
        line_count = len(self.lines)
        nap = await self.start(session, 'call nap {"seconds": 120}')
        await self.wait_for_output("naps", since=line_count)
        return nap

    async def run(self, session: AgentSession, text: str, **request: Any) -> Run:
        """Run to the end and return the row."""
        return await self.end_of(await self.start(session, text, **request))

    async def end_of(self, run: Run) -> Run:
        """Wait until a run has ended and return the row."""
        return await until(lambda: read_run(run), lambda row: row.status not in Run.ACTIVE)

    async def frames(self, run: Run, app: str, after: int = 0) -> list[dict[str, Any]]:
        """Return all frames of a run."""
        client = await self.supervisor.client(app)
        async with asyncio.timeout(PATIENCE_S):
            return [frame async for frame in client.stream(run.pk, after)]

    async def first_text(self, run: Run, app: str) -> str:
        """Return the first text that a run streams."""
        client = await self.supervisor.client(app)
        async with asyncio.timeout(PATIENCE_S):
            async for frame in client.stream(run.pk):
                if frame["type"] == "chunk":
                    return str(frame["text"])
        raise AssertionError("The run ended without streaming anything.")

    async def ask(
        self, session: AgentSession, message: str | dict[str, Any], path: str = "/run"
    ) -> tuple[int, str]:
        """Send a message on one of ADK's own paths; return the status and the text of the answer."""
        client = await self.supervisor.client(session.app_name)
        async with client.open("POST", path, headers=JSON, content=adk_body(session, message)) as answer:
            return answer.status_code, (await answer.aread()).decode()

    async def health(self, app: str) -> dict[str, Any]:
        """Return what the app's process says of itself."""
        answer: dict[str, Any] = await (await self.supervisor.client(app)).call("GET", "/devui/health")
        return answer


def adk_body(session: AgentSession, message: str | dict[str, Any], **more: Any) -> bytes:
    """Return the body of ADK's own requests for a run that brings a text, or another part."""
    body = {
        "appName": session.app_name,
        "userId": session.user_id,
        "sessionId": session.session_id,
        "newMessage": {"role": "user", "parts": [{"text": message} if isinstance(message, str) else message]},
    }
    return json.dumps({**body, **more}).encode()


async def until(read: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> Any:
    """Read until what was read holds, and return it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            value = await read()
            if holds(value):
                return value
            await asyncio.sleep(0.02)


async def read_run(run: Run) -> Run:
    """Return the row of a run as it is now."""
    return await units_of_work.read(Run.objects.select_related("session", "runtime").get, pk=run.pk)


async def read_events(session: AgentSession) -> list[Event]:
    """Return the stored events of a session."""
    return await units_of_work.read(lambda: list(Event.objects.filter(session=session).order_by("seq")))


async def pid_of(stage: Stage, app: str) -> int:
    """Return the pid of an app's process, started if need be."""
    return int((await stage.health(app))["pid"])


def is_running(pid: int) -> bool:
    """Tell whether a process lives."""
    return processes.identity(pid) is not None


async def wait_until_gone(pid: int) -> None:
    """Wait until a process is gone."""

    async def look() -> bool:
        return is_running(pid)

    await until(look, lambda running: not running)


@asynccontextmanager
async def opened_stage(
    folder: Path, data: Path, options: RuntimeOptions | None = None, take: float = TAKE_S, **limits: float
) -> AsyncIterator[Stage]:
    """Supervise the agents of a folder, over the tests' store. `take`: seconds to wait for a process to take a run."""
    lines: list[str] = []
    environment = {
        "DATABASE_URL": store_url(),
        "DEVUI_DATA_DIR": str(data),
        "DJANGO_SETTINGS_MODULE": settings.SETTINGS_MODULE,
    }
    supervisor = Supervisor(
        folder,
        options,
        limits=SupervisorLimits(**limits),
        environment=environment,
        write_line=lambda app, line: lines.append(f"{app} | {line}"),
    )
    with forked_processes.starts(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery_module, "TAKE_S", take)
        async with supervisor:
            yield Stage(supervisor, lines)


@pytest.fixture
def supervise(store: None, tmp_path: Path, agents_dir: Path) -> Callable[..., Any]:
    """Return a context manager that supervises the test's own copy of the stage's agents."""
    return partial(opened_stage, agents_dir, tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(module_store: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The stage's agents under a supervisor that the module's tests share."""
    data = tmp_path_factory.mktemp("stage")
    async with opened_stage(copy_of_stage(data), data) as opened:
        yield opened
