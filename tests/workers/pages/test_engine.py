"""Jobs of a worker: Procrastinate and PostgreSQL are real, and a stand-in of the supervisor only takes runs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.db import connection

from devui.config import environment
from devui.workers import engine as engines
from devui.workers.engine import Engine
from devui.workers.run_watch import WorkerRunWatch
from sessions_app.agent_processes import processes
from sessions_app.runs import lifecycle
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.models import Run
from tests.patience import PATIENCE_S
from tests.runtime.conftest import until
from tests.workers.pages.conftest import CODE, queue_run

pytestmark = pytest.mark.usefixtures("queue")

WORKER = "w1"


async def cancel_nothing(app_name: str, run_id: str) -> None:
    raise AssertionError(run_id)


class RunTaker:
    """A supervisor, and the client of its only process, which claims each run."""

    id = WORKER

    def code_versions(self) -> set[tuple[str, str]]:
        return set()

    async def client(self, app_name: str) -> RunTaker:
        return self

    async def start_run(self, run_id: str) -> None:
        await units_of_work.write(lifecycle.assign, run_id, WORKER)
        await units_of_work.write(lifecycle.claim, run_id, WORKER, CODE)


@asynccontextmanager
async def running_engine(slots: int = 2) -> AsyncIterator[Engine]:
    """Run the engine of a worker, whose runs begin and do not end by themselves."""

    await units_of_work.write(processes.register, WORKER, processes.SERVER_APP, 1, "")
    watch = WorkerRunWatch(WORKER, cancel_nothing)
    supervisor: Any = RunTaker()
    engine = Engine(supervisor, watch, slots)
    engine.take({"weather": CODE}, ["conversations"])
    working = [asyncio.create_task(work) for work in (engine.run(), watch.follow())]
    try:
        yield engine
    finally:
        await engine.close()
        for task in working:
            task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*working, return_exceptions=True)


async def run_in_session() -> Run:
    """Queue a run in a session of its own, as soon as the store answers."""
    return await retry.run(lambda: units_of_work.write(queue_run, uuid.uuid4().hex))


async def until_status(run: Run, status: str) -> None:
    await until(lambda: retry.read(lifecycle.get_status, run.pk), lambda current: current == status)


def rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


async def test_closed_engine_leaves_its_job_to_other_workers():
    async with running_engine():
        run = await run_in_session()
        await until_status(run, "running")
    assert await units_of_work.read(rows, "SELECT status, worker_id FROM procrastinate_jobs") == [
        ("todo", None)
    ]


async def test_closing_engine_starts_no_job():
    async with running_engine() as engine:
        await engine.close()
        run = await run_in_session()
    assert await units_of_work.read(lifecycle.get_status, run.pk) == "queued"


@pytest.fixture
def cuts(queue: None) -> Iterator[str]:
    """A statement that cuts all connections. The test's own opens again."""
    yield (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid != pg_backend_pid()"
    )
    connection.close()


async def test_jobs_are_taken_while_others_run_after_connections_were_cut(cuts):
    """Also the next time: what takes jobs is still there."""
    async with running_engine(slots=3):
        for _ in range(2):
            await until_status(await run_in_session(), "running")
            await units_of_work.read(rows, cuts)


async def test_job_that_was_lost_on_its_way_is_taken_again(monkeypatch):
    monkeypatch.setattr(engines, "LOST_S", 0.0)
    async with running_engine() as engine:
        await until(lambda: retry.read(rows, "SELECT id FROM procrastinate_workers"), bool)
        engine.take({}, [])
        run = await run_in_session()
        await units_of_work.write(
            rows, f"UPDATE procrastinate_jobs SET status = 'doing', worker_id = {engine.id} RETURNING id"
        )
        engine.take({"weather": CODE}, ["conversations"])
        assert (await units_of_work.read(Run.objects.get, pk=run.pk)).runtime_id == QUEUE_ID
        await engine.retry_abandoned_jobs()
        await until_status(run, "running")
        await engine.retry_abandoned_jobs()
    assert await units_of_work.read(lifecycle.get_status, run.pk) == "running"


def test_connections_are_given_up_whose_packets_get_no_answer(monkeypatch):
    """The system would double its pauses between repeated packets, and a URL may name other limits."""
    assert connection.get_connection_params().items() >= environment.ENGINE_TIMEOUTS.items()
    monkeypatch.setenv("DATABASE_URL", "postgresql://host/name?connect_timeout=9")
    of_runtimes = environment.database_settings(environment.runtime_environment()["DATABASE_URL"])["OPTIONS"]
    assert of_runtimes["options"] == environment.POSTGRES_OPTIONS + environment.ENGINE_OPTIONS
    assert (of_runtimes["connect_timeout"], of_runtimes["tcp_user_timeout"]) == ("9", "5000")
