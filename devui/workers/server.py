"""A worker process: supervises runtimes, takes jobs, and serves its runtimes to web processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn
from typing_extensions import override

from devui.http_server import HTTPServer
from devui.runtime.heartbeat import force_exit_after
from devui.workers.advertisement import (
    Instruction,
    advertise,
    code_versions,
    create_row,
    read_instruction,
    withdraw,
)
from devui.workers.background_work import BackgroundWork
from devui.workers.engine import Engine
from devui.workers.listener import WorkerListener
from devui.workers.run_watch import WorkerRunWatch
from devui.workers.supervisor import WorkerSupervisor
from sessions_app.agent_processes import processes
from sessions_app.agents.folder import AgentsFolder
from sessions_app.runs.background import repeat, repeat_after_changes
from sessions_app.store.database import gc_tuning, units_of_work
from sessions_app.store.database.schema import require_current_schema
from sessions_app.store.errors import SchemaTooNew, StoreFault

MESSAGE_BYTES = 16 * 1024 * 1024
"""Maximum bytes of a socket message."""

ADVERTISE_S = processes.HEARTBEAT_S / 2
"""Seconds between two checks of the code, and between two heartbeats."""

INSTRUCTION_PAUSE_S = 0.5
"""Minimum seconds between two reads of the worker's instruction, however many changes there are."""

GRACE_S = 3
"""Seconds that open streams have to end when the worker ends."""

END_S = 10
"""Seconds after its drain within which a worker has ended, whatever it waits for, such as a store that does not answer.
It takes less than 5 s otherwise.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of a worker.

    Attributes:
        address: host:port at which web processes reach its listener.
        kinds: kinds of queues from which it takes jobs.
        concurrency: conversation runs and attempts of eval runs at once.
        drain_s: seconds that its runs have to end when it is stopped.
    """

    address: str
    kinds: tuple[str, ...]
    concurrency: int
    drain_s: float


class WorkerServer:
    """A worker from its start to its end."""

    def __init__(
        self,
        supervisor: WorkerSupervisor,
        folder: AgentsFolder,
        listening_socket: socket.socket,
        options: WorkerOptions,
    ) -> None:
        self._supervisor = supervisor
        self._folder = folder
        self._options = options
        self._listening_socket = listening_socket
        self._watch = WorkerRunWatch(supervisor.id, self._cancel_run)
        self._background_work = BackgroundWork(supervisor.id)
        self._engine = Engine(supervisor, self._watch, options.concurrency)
        self._stop_requests = 0
        self._is_removed = False
        self._stopped = asyncio.Event()

    async def serve(self) -> None:
        """Serve until a signal, or until a person drains or removes the worker.

        Runs in progress have `drain_s` to end, or until a second signal. A removed worker ends at once.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._request_stop)
        server = _Server(
            uvicorn.Config(
                WorkerListener(self._supervisor),
                log_config=None,
                log_level="warning",
                access_log=False,
                ws_max_size=MESSAGE_BYTES,
                lifespan="off",
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        options = self._options
        async with self._supervisor:
            await units_of_work.write(
                create_row, self._supervisor.id, options.address, options.kinds, options.concurrency
            )
            await self._advertise_worker()
            server_task = asyncio.create_task(server.serve(sockets=[self._listening_socket]))
            engine = asyncio.create_task(self._engine.run())
            other_tasks = [
                asyncio.create_task(work)
                for work in (
                    repeat(self._keep_advertised, ADVERTISE_S, "The heartbeat of this worker"),
                    repeat_after_changes(
                        self._read_instruction, INSTRUCTION_PAUSE_S, "The worker's instruction"
                    ),
                    self._watch.follow(),
                )
            ]
            try:
                await self._stopped.wait()
                await self._drain_runs(engine)
            finally:
                self._supervisor.refuse_work()
                await self._engine.close()
                for task in (engine, *other_tasks):
                    task.cancel()
                await asyncio.gather(engine, *other_tasks, return_exceptions=True)
                await self._background_work.stop()
                await self._watch.close()
                with contextlib.suppress(StoreFault):  # others notice that its process is gone
                    await units_of_work.write(withdraw, self._supervisor.id)
                server.should_exit = True
        await server_task  # its streams have ended with the processes

    async def _drain_runs(self, engine: asyncio.Task[None]) -> None:
        """Wait until the runs have ended, for `drain_s`, until a second signal, or until the worker is removed."""
        self._engine.drain()
        if self._is_removed:
            return
        self._stopped.clear()
        with contextlib.suppress(StoreFault, TimeoutError):
            async with asyncio.timeout(ADVERTISE_S):
                await self._advertise_worker()
        waits = {
            asyncio.create_task(self._stopped.wait()),
            asyncio.create_task(self._wait_until_idle(engine)),
        }
        await asyncio.wait(waits, timeout=self._options.drain_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _wait_until_idle(self, engine: asyncio.Task[None]) -> None:
        """Wait until the jobs have ended, and the runs that went on after a pause, which have no job."""
        await asyncio.wait([engine])
        await self._watch.wait_until_idle()

    def _request_stop(self) -> None:
        self._stop_requests += 1
        is_first = self._stop_requests == 1
        if is_first:
            log.info("The worker finishes its runs; a second signal ends them.")
        self._stop_serving(self._options.drain_s if is_first else 0)

    def _stop_serving(self, drain_s: float) -> None:
        self._stopped.set()
        force_exit_after(drain_s + END_S)

    async def _read_instruction(self) -> None:
        self._follow_instruction(await units_of_work.read(read_instruction, self._supervisor.id))

    def _follow_instruction(self, instruction: Instruction) -> None:
        """Drain or end the worker if a person has requested it."""
        if instruction is Instruction.DRAIN and not self._stop_requests:
            log.info("A person has requested to drain this worker.")
            self._request_stop()
        elif instruction is Instruction.END and not self._is_removed:
            log.warning("This worker ends: a person has removed it, or it was silent for a day.")
            self._is_removed = True
            self._stop_serving(0)

    async def _keep_advertised(self) -> None:
        """Leave a newer store, advertise the worker, and retry the jobs of workers that are gone."""
        await self._leave_newer_store()
        await self._advertise_worker()
        await self._engine.retry_abandoned_jobs()

    async def _leave_newer_store(self) -> None:
        """Drain this worker if a newer DevUI has migrated the store: it does not know the new tables."""
        try:
            await units_of_work.read(require_current_schema)
        except SchemaTooNew as error:
            if not self._stop_requests:
                log.warning("%s This worker takes no more runs. %s", error.message, error.hint)
                self._request_stop()

    async def _advertise_worker(self) -> None:
        apps = await asyncio.to_thread(code_versions, self._folder)
        instruction = await units_of_work.write(
            advertise,
            self._supervisor.id,
            apps,
            engine_id=self._engine.id,
            is_draining=self._stop_requests > 0,
        )
        self._engine.take(apps, self._options.kinds)
        self._follow_instruction(instruction)
        await self._background_work.take_turn()

    async def _cancel_run(self, app_name: str, run_id: str) -> None:
        await (await self._supervisor.client(app_name)).cancel_run(run_id)


class _Server(HTTPServer):
    """A server that leaves signals to the worker: streams go on while its runs end."""

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(
    supervisor: WorkerSupervisor,
    folder: AgentsFolder,
    listening_socket: socket.socket,
    options: WorkerOptions,
) -> None:
    """Run a worker until a signal."""
    gc_tuning.end_startup()
    asyncio.run(WorkerServer(supervisor, folder, listening_socket, options).serve())
    units_of_work.close_pools()
