"""Runs whose client disconnects before they start: none stays queued forever."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from sessions_app.runs import background, dispatch, lifecycle
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Run
from tests.api.builders import create
from tests.patience import PATIENCE_S
from tests.runtime.conftest import until
from tests.sessions.cancelled_callers import cancel_while_writing

pytestmark = pytest.mark.django_db(transaction=True)


def statuses() -> list[str]:
    return list(Run.objects.values_list("status", flat=True))


class Given:
    """A process that takes every run, and is every app's."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.took = asyncio.Event()

    def apps(self) -> list[str]:
        return ["weather"]

    async def client(self, app_name: str) -> Given:
        return self

    async def start_run(self, run_id: str) -> None:
        self.taken.append(run_id)
        self.took.set()


async def test_a_run_that_belongs_to_its_caller_is_cancelled_with_it():
    session = await create()
    write_begun = threading.Event()

    def row(run_id: str) -> Run:
        assert write_begun.wait(PATIENCE_S)
        return lifecycle.create_run(session.pk, {}, lifecycle.ADK_SOURCE, run_id=run_id)

    await cancel_while_writing(asyncio.create_task(background.create_callers_row(row)), write_begun)
    await until(lambda: units_of_work.read(statuses), lambda expected: expected == [Run.Status.CANCELLED])


async def test_queued_run_is_delivered_after_its_request_ended(monkeypatch):
    session = await create()
    write_begun = threading.Event()
    write_row = lifecycle.create_run

    def slowly(*arguments: Any, **options: Any) -> Run:
        assert write_begun.wait(PATIENCE_S)
        return write_row(*arguments, **options)

    monkeypatch.setattr(lifecycle, "create_run", slowly)
    value = Given()
    runs.register(value)
    try:
        await cancel_while_writing(
            asyncio.create_task(dispatch.start_run(session, {}, person="")), write_begun
        )
        async with asyncio.timeout(PATIENCE_S):
            await value.took.wait()
    finally:
        runs.register(None)
    assert value.taken == [(await units_of_work.read(Run.objects.get)).pk]
