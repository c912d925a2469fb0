"""A store whose threads end with the test, and a run from a document to its rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import AsyncClient
from google.adk.agents.base_agent import BaseAgent

from evals_app.execution.run_execution import execute_run
from evals_app.execution.variants import apply_variant
from evals_app.files import library
from evals_app.metrics.config import RunConfig
from evals_app.models import EvalRun
from evals_app.runs import run_orders
from evals_app.runs.run_orders import RunOrder
from evals_app.variants.variant import Variant
from sessions_app.agents.folder import AgentsFolder
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from tests.evals import agents, builders
from tests.evals import echo_agent as echoing
from tests.evals.builders import case, evalset, turn, write
from tests.evals.echo_agent import AGENT
from tests.evals.refused_models import judge, service  # noqa: F401 - fixtures
from tests.store import finish_threads

Play = Callable[..., Awaitable[EvalRun]]


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """A store emptied after the test: attempts run in other threads, so nothing can be rolled back."""
    yield
    finish_threads()


@pytest.fixture
def folder(tmp_path: Path) -> AgentsFolder:
    """The folder of one agent, `counter`."""
    (tmp_path / "counter").mkdir()
    (tmp_path / "counter" / "agent.py").write_text("root_agent = None\n")
    return AgentsFolder(tmp_path / "counter", tmp_path, "counter")


@pytest.fixture
def play(store: None, folder: AgentsFolder) -> Play:
    """Order a run of a document and carry it out with an agent's answer."""

    async def run(
        document: Any,
        answer: agents.Answer | BaseAgent,
        config: Any = None,
        *,
        cancelled: asyncio.Event | None = None,
        progress: Any = None,
        name: str = "set.evalset.json",
        **order: Any,
    ) -> EvalRun:
        path = builders.write(folder.path, name, document)
        ordered = await units_of_work.write(_order, folder, path, config, order)
        agent = answer if isinstance(answer, BaseAgent) else agents.Scripted(name="counter", answer=answer)
        source = agents.Source(agent, folder=folder)
        await execute_run(ordered.id, source, cancelled or asyncio.Event(), progress=progress)
        return await units_of_work.read(
            EvalRun.objects.select_related("evalset", "version").get, pk=ordered.id
        )

    return run


def _order(folder: AgentsFolder, path: Path, config: Any, order: dict[str, Any]) -> EvalRun:
    evalset = library.register_file(folder, "counter", path)
    criteria = {"response_match_score": 0.5} if config is None else config
    data = criteria if "criteria" in criteria else {"criteria": criteria}
    return run_orders.order_run(evalset, RunOrder(RunConfig(data, "the test"), **order))


RIGHT = [{"name": "get_weather", "args": {"city": "Paris"}}]
WRONG = [{"name": "get_weather", "args": {"city": "Rome", "unit": "<c>"}}]
SEEDED = {"app_name": "x", "user_id": "u", "state": {"k": "v"}}


async def wait_until_settled() -> None:
    """Return when no run is active: a page does not wait for a run to end."""
    while await units_of_work.read(EvalRun.objects.filter(status__in=EvalRun.ACTIVE).exists):  # noqa: ASYNC110 - only the store knows
        await asyncio.sleep(0.02)


class Process:
    """A runtime process that carries eval runs out at once."""

    def __init__(self, source):
        self.source = source
        self.asked = []

    def apps(self):
        return ["counter"]

    async def client(self, app_name):
        return self

    async def call(self, method, path, body=None):
        self.asked.append((method, path))
        if path == "/devui/health":
            return {"state": "ready"}
        if path == "/devui/evals/variants":
            for text in body["variants"]:
                apply_variant(Variant.from_json(text), self.source.load()[0], None)
            return None
        await execute_run(body["eval_run_id"], self.source, asyncio.Event())


@pytest.fixture
def web(store, folder, settings):
    """A client of the pages; no process runs agents."""
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    runs.register(None)
    yield AsyncClient()
    runs.register(None)


def answers(ctx, text):
    if text == "break":
        raise RuntimeError("<b>on fire</b>")
    return [agents.calls("get_weather", city="Paris"), f"It is sunny <i>in</i> {text}."]


@pytest.fixture
def process(web, folder):
    """A process that runs the agent `counter`."""
    agent = agents.Scripted(name="counter", answer=answers)
    agent_process = Process(agents.Source(agent, folder=folder))
    runs.register(agent_process)
    return agent_process


@pytest.fixture
def smoke(folder):
    """An evalset of which one case passes, one fails and one raises."""
    return builders.write(
        folder.path,
        "smoke.evalset.json",
        builders.evalset(
            builders.case("good", builders.turn("Paris", "It is sunny <i>in</i> Paris.", RIGHT)),
            builders.case("bad <script>", builders.turn("Oslo", "It rains.", WRONG), session_input=SEEDED),
            builders.case("breaks", builders.turn("break", "never")),
        ),
    )


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """An agent that answers what was said, and an evalset whose last case expects something else."""
    folder = tmp_path / f"echo_{tmp_path.name}"
    folder.mkdir()
    (folder / "agent.py").write_text(echoing.AGENT)
    cases = [case("a", turn("a", "a")), case("b", turn("b", "b")), case("never", turn("c", "d"))]
    write(folder, "s.evalset.json", evalset(*cases))
    return folder


@pytest.fixture
def suite(tmp_path):
    """A test suite and an agent with three cases, the last of which never passes."""
    agent = tmp_path / "agents" / "echo"
    agent.mkdir(parents=True)
    (agent / "agent.py").write_text(AGENT)
    cases = [case("a", turn("a", "a")), case("b ü::/", turn("b", "b")), case("never", turn("c", "d"))]
    write(agent, "s.evalset.json", evalset(*cases))
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "tests").mkdir()
    return tmp_path
