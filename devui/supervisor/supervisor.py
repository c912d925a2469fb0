"""The runtime processes of one web process: started at first use, replaced when code changes, ended with it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from devui.runtime.config import RuntimeOptions
from devui.supervisor import http_calls, process_cleanup
from devui.supervisor.agent_user import AgentUser
from devui.supervisor.client import AppClient
from devui.supervisor.frame_feeds import FrameFeeds
from devui.supervisor.limits import SupervisorLimits
from devui.supervisor.listeners import SocketFolder
from devui.supervisor.output import LineSink, ProcessOutput
from devui.supervisor.runtime_process import RuntimeChild
from sessions_app.agent_processes import processes
from sessions_app.agents import cards, remotes
from sessions_app.agents import folder as agents
from sessions_app.delivery.deliveries import deliveries
from sessions_app.delivery.process_tries import ProcessEnded
from sessions_app.runs import lifecycle
from sessions_app.runs.background import BackgroundTasks, repeat
from sessions_app.runs.run_delivery import RunDelivery
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import (
    DevUIError,
    NotFound,
    RuntimeUnavailable,
    ServerStopping,
    StoreFault,
)

STOPPED = "The server was stopped."

MAX_RELOADS = 2
"""Most reloads of an app whose code changes while it is loaded: some agents write code when loaded."""

CODE_STEP_MS = 250
"""Milliseconds between two checks for changed code. A run checks the code of its agent itself."""

SETTLE_S = 3.0
"""Seconds that a loading process has to report its code version, before changed code replaces it."""

log = logging.getLogger(__name__)


class Supervisor:
    """Finds or starts the runtime process of an app (`sessions_app.runs.runtime_client.RuntimeProvider`).

    An async context manager: processes are supervised inside it, and none is left after it.
    """

    def __init__(
        self,
        agents_dir: str | Path | None,
        options: RuntimeOptions | None = None,
        *,
        limits: SupervisorLimits | None = None,
        environment: Mapping[str, str] | None = None,
        agent_user: AgentUser | None = None,
        write_line: LineSink | None = None,
        output_folder: Path | None = None,
        adopts_runs: bool = True,
    ) -> None:
        """Supervise the agents of a folder.

        Args:
            environment: variables of the processes that differ from this one's.
            agent_user: system user of the processes; None: this process's.
            write_line: receives the output lines of processes; by default they go to stderr.
            output_folder: folder for the newest output of each app; None for no files.
            adopts_runs: also deliver the runs that ended servers left queued.
        """
        self.id = uuid.uuid4().hex
        self.folder = None if agents_dir is None else agents.open_folder(agents_dir)
        self.limits = limits or SupervisorLimits()
        self.feeds = FrameFeeds(lambda run: self.find_child(run.runtime_id))
        self._options = options or RuntimeOptions()
        self._environment = dict(environment or {})
        self._agent_user = agent_user
        self._write_line = write_line or _write_line
        self._output_folder = output_folder
        self._adopts_runs = adopts_runs
        self._sockets = SocketFolder()
        self._current: dict[str, RuntimeChild] = {}
        # code version by app, of those that nobody has used since they were preloaded
        self._preloaded: dict[str, str] = {}
        self._children: dict[str, RuntimeChild] = {}
        self._starting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._supervising = BackgroundTasks()
        self._tasks = BackgroundTasks()
        self._closing = asyncio.Event()
        self._is_watching = False

    async def __aenter__(self) -> Self:
        if self._agent_user is not None:
            await units_of_work.write(self._agent_user.prepare_store)
        await units_of_work.write(processes.register, self.id, processes.SERVER_APP, os.getpid(), "")
        processes.set_own_id(self.id)
        await self.take_over(None if self._adopts_runs else [])
        self.spawn(_delete_stopped_processes())
        self.spawn(repeat(self._write_heartbeats, processes.HEARTBEAT_S, "The heartbeat of this server"))
        self.spawn(repeat(self._sweep_processes, self.limits.sweep, "The check for idle processes"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def apps(self) -> list[str]:
        """Return the sorted names of the apps that can be run."""
        return self.folder.names() if self.folder else []

    async def client(self, app_name: str) -> AppClient:
        """Return the client of the app's runtime, started if necessary. Raises the errors of `child`."""
        child = await self.child(app_name)
        self._preloaded.pop(app_name, None)
        return AppClient(self, child)

    @property
    def process_count(self) -> int:
        """Number of living processes, including those that finish runs of outdated code."""
        return len(self._children)

    @property
    def is_starting(self) -> bool:
        """Tell whether a process loads its agent."""
        return any(not child.ready.is_set() for child in self._children.values())

    async def preload(self, app_name: str) -> None:
        """Start the process of an app before it is used, and return when it has loaded the agent or has ended.

        Do nothing if the app has a process, or if its code was preloaded before and nobody has used it since: a process
        that ended because nobody used it is not started again. Raises the errors of `child`.
        """
        version = await asyncio.to_thread(self._folder_with(app_name).code_version, app_name)
        if app_name in self._current or self._preloaded.get(app_name) == version:
            return
        self._preloaded[app_name] = version
        child = await self.child(app_name)
        await child.settled.wait()

    async def child(self, app_name: str) -> RuntimeChild:
        """Return the process with the app's current code; requests to it wait while it starts.

        Raises:
            NotFound: the app does not exist.
            RuntimeUnavailable: the process could not be started.
            ServerStopping: the server is stopping.
        """
        folder = self._folder_with(app_name)
        async with self._starting[app_name]:
            version = await asyncio.to_thread(folder.code_version, app_name)
            self.check_open()
            current = self._current.get(app_name)
            if current is not None and current.is_suspect:
                await self._end_if_unreachable(current)
            if current is not None and current.is_alive:
                if current.code_version == version and not _needs_reload(current):
                    current.used_at = time.monotonic()
                    return current
                self._retire_child(current, "its code has changed")
            child = self._current[app_name] = await self._start_child(app_name, folder, version)
            if current is not None and current.is_mixed:
                child.mixed_before = current.mixed_before + 1
            return child

    def is_current(self, child: RuntimeChild) -> bool:
        """Tell whether the app's next runs go to this process."""
        return self._current.get(child.app_name) is child

    def find_child(self, runtime_id: str | None) -> RuntimeChild | None:
        """Return the living process of this server with this id, or None."""
        return self._children.get(runtime_id or "")

    async def end_process(self, runtime_id: str, why: str) -> bool:
        """End a process that does not react; its runs have crashed. Return False if it is not this server's."""
        child = self.find_child(runtime_id)
        if child is None:
            return False
        await self._end_child(child, why)
        return True

    async def end_to_cancel(self, child: RuntimeChild, run_id: str) -> None:
        """End a process whose agent ignores a cancellation: that run is cancelled, its other active runs crash.

        Runs that it has not started go to the next process.
        """
        why = f"Its process was ended to cancel run {run_id}, whose agent did not react."
        await units_of_work.write(lifecycle.finish, run_id, lifecycle.Status.CANCELLED)
        await self._end_child(child, why)

    async def _end_child(self, child: RuntimeChild, why: str) -> None:
        child.kill(why)
        await child.exited.wait()

    async def _end_if_unreachable(self, child: RuntimeChild) -> None:
        """End a process that has closed its socket: nothing can reach it any more."""
        child.is_suspect = False
        if not await child.accepts_connections():
            await self._end_child(
                child, f"The process of agent {child.app_name!r} was ended: it has closed its socket."
            )

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background until the supervisor is closed."""
        self._tasks.start(work)

    async def close(self) -> None:
        """End every process; active runs are cancelled, and queued ones wait for the next server."""
        self.refuse_work()
        await deliveries.stop()
        await self._tasks.cancel()
        for child in self._children.values():
            child.request_exit(STOPPED)
        if self._supervising:
            await asyncio.wait(self._supervising, timeout=self.limits.stop)
        for child in self._children.values():
            child.kill(STOPPED)
        await self._await_supervising()
        await self.feeds.close()
        self._sockets.remove()
        processes.set_own_id(None)
        await process_cleanup.record_stop(self.id)

    async def _await_supervising(self) -> None:
        """Wait until the ends of all processes are recorded, but not for an unavailable store."""
        if not self._supervising:
            return
        _, late = await asyncio.wait(self._supervising, timeout=self.limits.stop)
        for task in late:
            task.cancel()
        ended = await asyncio.gather(*self._supervising, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                log.error("The end of a process could not be recorded.", exc_info=error)
        if late:
            log.warning(
                "The store did not accept the end of %d processes; the next server detects it.", len(late)
            )

    def refuse_work(self) -> None:
        """Accept no more runs: the server stops."""
        self._closing.set()

    def check_open(self) -> None:
        """Raise `ServerStopping` if the server stops."""
        if self._closing.is_set():
            raise ServerStopping

    async def take_over(self, app_names: list[str] | None = None) -> None:
        """End the runs without a living owner, and deliver those that ended servers left queued.

        Args:
            app_names: the apps whose runs are delivered; others may belong to a server that returns. None: all.
        """
        from evals_app.runs.writes import crashes

        await units_of_work.write(crashes.crash_orphans)
        for run_id, app_name in await units_of_work.read(lifecycle.abandoned_runs):
            is_local = remotes.find_remote(app_name) is None
            if is_local and (app_names is None or app_name in app_names):
                deliveries.start(RunDelivery(app_name, run_id, self))
        for run_id, app_name in await units_of_work.write(crashes.adopt_abandoned, self.id, app_names):
            self._deliver_evals(run_id, app_name)

    def _deliver_evals(self, run_id: str, app_name: str) -> None:
        from evals_app.runs.dispatch import EvalRunDelivery

        deliveries.start(EvalRunDelivery(app_name, run_id, self))

    def _folder_with(self, app_name: str) -> agents.AgentsFolder:
        server = app_name.partition(remotes.SEPARATOR)[2]
        if server and remotes.find_remote(app_name) is None:
            raise NotFound(
                f"No agent {app_name!r}: this server was started without a remote server {server!r}.",
                hint=f"Start it with --runtime {server}=URL.",
            )
        if self.folder is None:
            raise NotFound(
                f"No agent {app_name!r}.", hint="This server was started without a folder of agents."
            )
        self.folder.app_folder(app_name)
        return self.folder

    async def _start_child(self, app_name: str, folder: agents.AgentsFolder, version: str) -> RuntimeChild:
        card_before = await units_of_work.read(cards.last_checked_at, app_name)
        try:
            child = await RuntimeChild.spawn(
                app_name,
                folder.path,
                version,
                self._options,
                self._sockets.listen(),
                self._environment,
                self._agent_user,
                ProcessOutput(app_name, self._write_line, self._output_folder),
            )
        except OSError as error:
            raise RuntimeUnavailable(
                f"No process could be started for agent {app_name!r}: {error.strerror or error}.",
                hint="The system may be out of processes, memory or file descriptors. A path that is too long is that"
                " of the folder for temporary files: set TMPDIR. The user in DEVUI_AGENT_USER must be able to read"
                " Python, DevUI and the agents.",
            ) from error
        child.card_before = card_before
        self._children[child.id] = child
        self._supervising.start(self._supervise_child(child))
        if self._closing.is_set():
            child.request_exit(STOPPED)
        try:
            await units_of_work.write(processes.register, child.id, app_name, child.pid, version, self.id)
        except StoreFault as fault:
            child.kill(f"The process of agent {app_name!r} could not be registered: {fault.message}")
            raise
        self.spawn(self._await_start(child))
        if not self._is_watching:
            self._is_watching = True
            self.spawn(self._watch_code(folder))
        return child

    async def _supervise_child(self, child: RuntimeChild) -> None:
        """Wait for the end of a process, then record the ends of its runs and redeliver queued ones."""
        from evals_app.runs.writes import crashes

        await child.wait()
        if not child.ready.is_set():
            await child.output.finish()  # its last output has the reason
        del self._children[child.id]
        was_current = self.is_current(child)
        if was_current:
            del self._current[child.app_name]
        is_closing = self._closing.is_set()
        # a replaced process is not current: the next one takes its queued runs
        will_start = child.ready.is_set() or child.was_killed or is_closing or not was_current
        queued = await retry.read(lifecycle.list_unstarted, child.id) if will_start else []
        evals = await process_cleanup.release_eval_runs(child) if will_start and not is_closing else []
        crash = partial(
            crashes.end_with_process,
            is_closing=is_closing,
            continue_evals=self._options.continue_evals,
        )
        crashed = await retry.write(crash, child.id, child.describe_end(), queued)
        await retry.write(processes.mark_stopped, child.id)
        if not is_closing:
            for run_id in queued:
                deliveries.redeliver(
                    RunDelivery(child.app_name, run_id, self), ProcessEnded(child.describe_end())
                )
        for run_id in evals:
            self._deliver_evals(run_id, child.app_name)
        if was_current and not child.ready.is_set() and not is_closing:
            await retry.write(process_cleanup.write_failed_card, child)
        child.exited.set()
        child.settled.set()
        if crashed or not child.exited_cleanly:
            log.error(
                "%s %d runs crashed with it, %d eval runs go on.",
                child.describe_end(),
                len(crashed),
                len(evals),
            )
        await child.output.finish()
        await child.close()

    async def _await_start(self, child: RuntimeChild) -> None:
        """Kill a process that does not answer within the limit."""
        try:
            async with asyncio.timeout(self.limits.start):
                health = await http_calls.call_without_hold(child, "GET", "/devui/health")
                child.code_version, child.is_mixed = health["code_version"], health["is_mixed"]
                child.ready.set()
                child.settled.set()
        except TimeoutError:
            child.kill(f"Agent {child.app_name!r} was not loaded within {self.limits.start:.0f} s.")
        except Exception as error:
            if child.is_alive:  # otherwise `_supervise_child` records its end
                why = error.message if isinstance(error, DevUIError) else f"{type(error).__name__}: {error}"
                child.kill(f"The process of agent {child.app_name!r} sent an invalid response: {why}")

    def _retire_child(self, child: RuntimeChild, why: str) -> None:
        """Give a process no more runs, and end it when its active ones have finished, or after the limit."""
        del self._current[child.app_name]
        child.settled.set()
        self.spawn(self._redeliver_queued(child))
        self.spawn(self._end_when_done(child, why))

    async def _redeliver_queued(self, child: RuntimeChild) -> None:
        """Deliver the queued runs of a process to the one that replaces it."""
        for run_id in await retry.read(lifecycle.list_unstarted, child.id):
            deliveries.start(RunDelivery(child.app_name, run_id, self))

    async def _end_when_done(self, child: RuntimeChild, why: str) -> None:
        try:
            async with asyncio.timeout(self.limits.drain):
                await child.unused.wait()
                if not child.ready.is_set():
                    child.kill(
                        f"The process of agent {child.app_name!r} was ended: {why} while it was loaded."
                    )
                with suppress(DevUIError):
                    await http_calls.call(child, "POST", "/devui/drain")
                await child.exited.wait()
        except TimeoutError:
            limit = f"{self.limits.drain:.0f} s"
            child.kill(
                f"The process of agent {child.app_name!r} was ended: {why}, and its runs went on for {limit}."
            )

    async def _write_heartbeats(self) -> None:
        """Write the heartbeats of this server and of the processes that start.

        Others take over the queued runs of a silent server. A process writes its own heartbeats as soon as it has
        imported DevUI and ADK, which on a busy machine takes longer than the silence after which it counts as gone.
        """
        starting = [child.id for child in self._children.values() if not child.ready.is_set()]
        await units_of_work.write(processes.record_heartbeat, self.id, *starting)

    async def _sweep_processes(self) -> None:
        """End idle processes, and runs without an owner."""
        await self.take_over(self.apps())
        newest_first = sorted(
            self._current.values(),
            key=lambda child: (child.app_name not in self._preloaded, child.used_at),
            reverse=True,
        )
        for rank, child in enumerate(newest_first):
            is_within_limit = rank < self.limits.max_idle
            await self._check_process(child, self.limits.idle if is_within_limit else self.limits.sweep)

    async def _check_process(self, child: RuntimeChild, idle_s: float) -> None:
        """End a process that nobody has used for `idle_s`, or that does not answer the requests in progress."""
        async with self._starting[child.app_name]:
            is_used = not child.unused.is_set()
            is_idle = not is_used and time.monotonic() - child.used_at >= idle_s
            if not self.is_current(child) or not child.ready.is_set() or not (is_used or is_idle):
                child.silent_since = None
                return
            try:
                async with asyncio.timeout(self.limits.cancel):
                    health = await http_calls.call_without_hold(child, "GET", "/devui/health")
            except (DevUIError, TimeoutError):
                await self._end_if_silent(child)
                return
            child.silent_since = None
            if is_idle and child.unused.is_set() and not health["active_runs"]:
                self._retire_child(child, "nobody used it")

    async def _end_if_silent(self, child: RuntimeChild) -> None:
        """End a process that has not answered for too long, unless it executes a run: its tool may take long."""
        now = time.monotonic()
        child.silent_since = child.silent_since or now
        if now - child.silent_since < self.limits.silence or await units_of_work.read(
            process_cleanup.has_active_runs, child.id
        ):
            return
        why = f"it has not answered for {self.limits.silence:.0f} s and executes no run"
        child.kill(f"The process of agent {child.app_name!r} was ended: {why}.")

    async def _watch_code(self, folder: agents.AgentsFolder) -> None:
        """Start the new process of an app in use as soon as its code changes, so that it is ready for the next run."""
        from watchfiles import awatch

        changes = awatch(
            folder.path, watch_filter=lambda change, path: agents.is_code(path), step=CODE_STEP_MS
        )
        try:
            async for _ in changes:
                for child in list(self._current.values()):
                    with suppress(DevUIError):
                        with suppress(TimeoutError):
                            await asyncio.wait_for(child.settled.wait(), SETTLE_S)
                        await self.child(child.app_name)
        except (OSError, RuntimeError, ExceptionGroup) as error:
            first = (
                error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            )  # a name may not be UTF-8
            log.warning("Code changes are detected when the next run starts: %s", first)


def _needs_reload(child: RuntimeChild) -> bool:
    return child.is_mixed and child.mixed_before < MAX_RELOADS


async def _delete_stopped_processes() -> None:
    """Delete the rows of processes that ended long ago, in small batches that block nothing."""
    try:
        while await units_of_work.write(processes.delete_stopped):
            pass
    except Exception:
        log.exception("Rows of old processes could not be deleted; the next start tries again.")


def _write_line(app_name: str, line: str) -> None:
    sys.stderr.write(f"{app_name} | {line}\n")
