"""Imports of what `adk web` stored in agents' folders: pages start them, workers carry them out.

The worker imports the folder of the agent in its own agents folder. A repeated import adds nothing twice, so the job of
a worker that is gone is carried out by another one.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

from django.db import connections, transaction
from procrastinate.contrib.django import app as procrastinate_app
from pydantic import TypeAdapter
from typing_extensions import override

from devui.workers.models import AgentImport
from devui.workers.queues import CONVERSATIONS, IMPORT_TASK, queue_name
from sessions_app.agents.folder import AgentsFolder
from sessions_app.store.errors import NotFound
from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers.jobs import ImportJob

_REPORT = TypeAdapter(ImportReport)


class WorkerImports:
    """The imports of a web process without agents (`sessions_app.transfer.writers.jobs.ImportJobs`)."""

    def start(self, location: str, agent: str) -> None:
        """Let a worker with the agent import its folder, unless one does."""
        with transaction.atomic():
            row, is_new = AgentImport.objects.select_for_update().get_or_create(
                pk=location, defaults={"app_name": agent}
            )
            if row.is_running and not is_new:
                return
            AgentImport(pk=location, app_name=agent).save(force_update=True)
            queue = queue_name(CONVERSATIONS, agent)
            procrastinate_app.configure_task(IMPORT_TASK, queue=queue, allow_unknown=True).defer(
                location=location, app_name=agent
            )

    def find(self, location: str) -> ImportJob | None:
        """Return the latest import of a folder, if any."""
        row = AgentImport.objects.filter(pk=location).first()
        if row is None:
            return None
        report = _REPORT.validate_json(row.report) if row.report else None
        return ImportJob(row.location, row.app_name, row.done, report, row.problem)

    def forget(self, location: str) -> None:
        """Drop a finished import."""
        AgentImport.objects.filter(pk=location, is_running=False).delete()


@dataclass(slots=True)
class _RecordedJob(ImportJob):
    """An import whose row shows its progress."""

    row_pk: str = ""

    @override
    def progress(self, done: int) -> None:
        """Record the number of events read so far."""
        AgentImport.objects.filter(pk=self.row_pk).update(done=done)


async def carry_out(location: str, app_name: str, agents: AgentsFolder) -> None:
    """Import the folder of an agent, in a thread that does not keep this process alive."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def work() -> None:
        error: BaseException | None = None
        try:
            _import_folder(location, app_name, agents)
        except BaseException as raised:
            error = raised
        finally:
            connections.close_all()
        loop.call_soon_threadsafe(_finish_import, ended, error)

    threading.Thread(target=work, name="devui-import", daemon=True).start()
    await ended


def _finish_import(ended: asyncio.Future[None], error: BaseException | None) -> None:
    if ended.cancelled():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


def _import_folder(location: str, app_name: str, agents: AgentsFolder) -> None:
    row = AgentImport.objects.filter(pk=location, is_running=True)
    if not row.exists():
        return
    try:
        job = _RecordedJob(str(agents.app_folder(app_name).resolve()), app_name, row_pk=location)
    except NotFound as error:
        row.update(is_running=False, problem=f"{error.message} {error.hint}")
        return
    job.run()
    report = _REPORT.dump_json(job.report).decode() if job.report else ""
    row.update(is_running=False, report=report, problem=job.problem)
