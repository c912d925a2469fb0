"""Execution of runs in a child process, which is replaced if an agent ends it: for `run_evals` and test suites.

The child is forked before anything is imported that an agent needs, and imports it while its parent prepares the runs.
The rows of the runs hold the
results; a run that is still active when the child has ended is one whose agent ended the child. The output of the
child is passed on within a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from types import FrameType
from typing import NoReturn

from django.db import connections

from evals_app.execution.local_runner import (
    RunListener,
    continue_after_death,
    execute_runs,
    load_engine,
    run_in_loop,
)
from evals_app.models import EvalRun
from evals_app.runs.rerun import reload_run
from evals_app.runs.writes.crashes import ProcessDeath
from sessions_app.agent_processes import processes
from sessions_app.agent_processes.process_limits import apply_limits
from sessions_app.agent_processes.process_output import OutputLimit, OutputReader
from sessions_app.agents.folder import AgentsFolder
from sessions_app.store.database import retry, units_of_work

STOP_GRACE_S = 8
"""Seconds that a child has to stop its run (agents get 5 of them, see `executor`) before it is killed."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals by which people and programs stop a command."""

STANDARD_STREAMS = (1, 2)
"""Descriptors of standard output and of the error stream."""


class StoppedBySignal(Exception):
    """A signal stopped the runs."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class RunChildren:
    """Child processes that execute runs of an agent, one process at a time. A context, at whose start the first begins.

    A child imports what runs need and waits for the ids of its runs, so that its parent can create these meanwhile.
    """

    def __init__(
        self, agents: AgentsFolder, app_name: str, listener: RunListener, died: Callable[[str], None]
    ) -> None:
        """Execute runs of an agent.

        Args:
            listener: receives their progress, in the child.
            died: called when a child ended before its runs, with how, such as "exit status 3".
        """
        self._agents = agents
        self._app_name = app_name
        self._listener = listener
        self._died = died
        self._waiting_child: _Child | None = None
        self._orders = -1

    def __enter__(self) -> RunChildren:
        self._start_child()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._waiting_child is not None:
            os.close(self._orders)
            self._waiting_child.kill()

    def execute(self, runs: Sequence[EvalRun]) -> list[EvalRun]:
        """Execute pending runs one after the other; return them as they ended.

        Raises:
            StoppedBySignal: SIGINT or SIGTERM stopped the runs, perhaps sent to the child alone; a second signal does
                not wait for agents.
        """
        active_runs = list(runs)
        while active_runs:
            child = self._order_runs([run.pk for run in active_runs])
            ending = processes.describe_exit(child.wait())
            rows = [retry.run_sync(reload_run, run.pk) for run in active_runs]
            active_runs = [run for run in rows if run.active]
            if active_runs:
                self._died(ending)
                active_runs = continue_after_death(active_runs, ProcessDeath(ending), self._listener)
        return [retry.run_sync(reload_run, run.pk) for run in runs]

    def _start_child(self) -> _Child:
        orders, self._orders = os.pipe()
        self._waiting_child = _Child.fork(partial(self._execute_orders, orders))
        os.close(orders)
        return self._waiting_child

    def _order_runs(self, ids: Sequence[str]) -> _Child:
        """Send the ids of runs to the child that waits, or to a new one; return the child."""
        child = self._waiting_child or self._start_child()
        self._waiting_child = None
        with (
            contextlib.suppress(BrokenPipeError),
            os.fdopen(self._orders, "w") as orders,
        ):  # the child has ended
            orders.write(f"{json.dumps(ids)}\n")
        return child

    def _execute_orders(self, orders: int) -> None:
        """Execute the runs whose ids the parent sends; none if it ends without."""
        os.close(self._orders)
        load_engine()
        with os.fdopen(orders) as lines:
            ids = json.loads(lines.readline() or "[]")
        runs = [retry.run_sync(reload_run, run_id) for run_id in ids]
        if runs:
            work = execute_runs(runs, self._agents, self._app_name, self._listener)
            run_in_loop(work, signal.SIGTERM)


def call_in_child(work: Callable[[], str]) -> tuple[int, str]:
    """Call a function in a child process; return the exit status of the child and the text that it returned.

    Raises:
        StoppedBySignal: SIGINT or SIGTERM stopped the child.
    """
    with (
        tempfile.TemporaryFile() as result
    ):  # processes that the function leaves behind would hold a pipe open
        child = _Child.fork(lambda: os.write(result.fileno(), work().encode()))
        code = child.wait()
        result.seek(0)
        return code, result.read().decode()


class _Child:
    """A forked process that runs a function, and ends when its parent does."""

    def __init__(self, pid: int, lifeline: int, output: Sequence[OutputReader]) -> None:
        self._pid = pid
        self._lifeline = lifeline
        self._output = output
        self._stopped_by = 0

    @classmethod
    def fork(cls, work: Callable[[], object]) -> _Child:
        """Fork a child with connections of its own. Output buffers are flushed first, so they are printed once."""
        connections.close_all()
        sys.stdout.flush()
        sys.stderr.flush()
        life, lifeline = os.pipe()
        streams = STANDARD_STREAMS[-1:] if os.path.sameopenfile(*STANDARD_STREAMS) else STANDARD_STREAMS
        output = [OutputReader(OutputLimit.to(fd)) for fd in streams]  # one limit for what goes to one place
        if pid := os.fork():
            os.close(life)
            for reader in output:
                reader.start()
            return cls(pid, lifeline, output)
        os.close(lifeline)
        for fd, reader in zip(STANDARD_STREAMS, cycle(output), strict=False):
            os.dup2(reader.fd, fd)
        for reader in output:
            reader.close()
        _run_child(work, life)

    def wait(self) -> int:
        """Return the exit status when the child has ended, or minus the number of its signal. Signals are forwarded.

        Raises:
            StoppedBySignal: SIGINT or SIGTERM stopped the child.
        """
        with self._forwarding_signals():
            _, status = os.waitpid(self._pid, 0)
        self._close()
        code = os.waitstatus_to_exitcode(status)
        if self._stopped_by or code == -signal.SIGTERM:
            raise StoppedBySignal(self._stopped_by or signal.SIGTERM)
        return code

    def kill(self) -> None:
        """End the child, which has no work, at once."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._close()

    def _close(self) -> None:
        os.close(self._lifeline)
        for reader in self._output:
            reader.finish()

    @contextlib.contextmanager
    def _forwarding_signals(self) -> Iterator[None]:
        handlers = {
            number: signal.signal(number, self._stop_on_signal) for number in (*STOP_SIGNALS, signal.SIGALRM)
        }
        try:
            yield
        finally:
            signal.alarm(0)
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _stop_on_signal(self, number: int, frame: FrameType | None) -> None:
        is_first = not self._stopped_by
        self._stopped_by = self._stopped_by or number
        signal.alarm(STOP_GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM if is_first else signal.SIGKILL)


def _run_child(work: Callable[[], object], life: int) -> NoReturn:
    """Call the function and exit. SIGINT is ignored: Ctrl-C reaches both processes, and the parent decides."""
    code = 1
    try:
        signal.signal(signal.SIGINT, lambda number, frame: None)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        threading.Thread(target=_end_with_parent, args=(life,), daemon=True).start()
        apply_limits()
        work()
        code = 0
    except asyncio.CancelledError:
        _end_by_sigterm()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _close_resources()
        os._exit(code)


def _end_by_sigterm() -> None:
    """End by SIGTERM, so that the parent learns of a signal that only this process received."""
    _close_resources()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _close_resources() -> None:
    units_of_work.close_pools()
    connections.close_all()
    for out in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more, or an agent closed it
            out.flush()


def _end_with_parent(life: int) -> None:
    os.read(life, 1)
    os.kill(os.getpid(), signal.SIGTERM)
