"""Runs carried out in a child process, and in the next one when an agent ends that: for the command line.

The child is forked before anything is imported that an agent needs, so it costs no time. The rows of the runs tell what
it came to; a run that is still active when the child has ended is one whose agent ended it. What the child prints is
passed on within a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import NoReturn

from django.db import connections

from evals_app.engine.local_runner import Listener, carry_out, fresh, run_to_end, without_process
from evals_app.models import EvalRun
from evals_app.runs.writes import Death
from sessions_app.agents.folder import AgentsFolder
from sessions_app.runs import processes
from sessions_app.runs.process_output import OutputLimit, OutputReader
from sessions_app.store import retry, units_of_work

PATIENCE_S = 8
"""Seconds that a child has to stop its run (`executor` gives agents 5 of them to let go); then it is ended."""

STOP = (signal.SIGINT, signal.SIGTERM)
"""By which people and programs stop a command."""

STANDARD = (1, 2)
"""The descriptors of standard output and of the error stream."""


class Stopped(Exception):
    """A signal stopped the runs."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def carry_out_in_children(
    runs: Sequence[EvalRun],
    agents: AgentsFolder,
    app_name: str,
    listener: Listener,
    died: Callable[[str], None],
) -> list[EvalRun]:
    """Carry out pending runs of an agent one after the other; return them as they ended.

    Args:
        listener: is told of them, in the child.
        died: is told how a child ended whose runs had not, such as "exit status 3".

    Raises:
        Stopped: SIGINT or SIGTERM came, to the child alone perhaps, and the runs have ended; a second one does not
            wait for agents to let go.
    """
    left = list(runs)
    while left:
        child = _Child.forked(partial(_carry_out, left, agents, app_name, listener))
        code = child.wait()
        if child.stopped_by or code == -signal.SIGTERM:
            raise Stopped(child.stopped_by or signal.SIGTERM)
        how = processes.describe_exit(code)
        left = _left(left)
        if left:
            died(how)
            left = without_process(left, Death(how), listener)
    return [retry.run_sync(fresh, run.pk) for run in runs]


def _carry_out(runs: Sequence[EvalRun], agents: AgentsFolder, app_name: str, listener: Listener) -> None:
    run_to_end(carry_out(runs, agents, app_name, listener), signal.SIGTERM)


def _left(runs: Sequence[EvalRun]) -> list[EvalRun]:
    return [run for run in (retry.run_sync(fresh, one.pk) for one in runs) if run.active]


class _Child:
    """A forked process that does some work, and ends when its parent does."""

    def __init__(self, pid: int, lifeline: int, output: Sequence[OutputReader]) -> None:
        self._pid = pid
        self._lifeline = lifeline
        self._output = output
        self.stopped_by = 0

    @classmethod
    def forked(cls, work: Callable[[], object]) -> _Child:
        """Start a child. It has connections of its own, and what is waiting to be printed is printed once."""
        connections.close_all()
        sys.stdout.flush()
        sys.stderr.flush()
        life, lifeline = os.pipe()
        output = [OutputReader(OutputLimit.to(fd)) for fd in STANDARD]
        if pid := os.fork():
            os.close(life)
            for reader in output:
                reader.start()
            return cls(pid, lifeline, output)
        os.close(lifeline)
        for fd, reader in zip(STANDARD, output, strict=True):
            os.dup2(reader.fd, fd)
            reader.close()
        _be_a_child(work, life)

    def wait(self) -> int:
        """Return the exit status when it has ended; below 0 it is a signal's number. Signals are handed on."""
        with self._heeding_signals():
            _, status = os.waitpid(self._pid, 0)
        os.close(self._lifeline)
        for reader in self._output:
            reader.finish()
        return os.waitstatus_to_exitcode(status)

    @contextlib.contextmanager
    def _heeding_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._stop) for number in (*STOP, signal.SIGALRM)}
        try:
            yield
        finally:
            signal.alarm(0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        is_first = not self.stopped_by
        self.stopped_by = self.stopped_by or number
        signal.alarm(PATIENCE_S)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM if is_first else signal.SIGKILL)


def _be_a_child(work: Callable[[], object], life: int) -> NoReturn:
    """Do the work and end. Ctrl-C on a terminal reaches both processes: the parent says what is to be done."""
    code = 1
    try:
        signal.signal(signal.SIGINT, lambda number, frame: None)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        threading.Thread(target=_end_with_parent, args=(life,), daemon=True).start()
        work()
        code = 0
    except asyncio.CancelledError:
        _terminate()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _leave()
        os._exit(code)


def _terminate() -> None:
    """End as SIGTERM would have it, so that the parent knows of one that only this process got."""
    _leave()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _leave() -> None:
    units_of_work.close_pools()
    connections.close_all()
    for out in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more, or an agent closed it
            out.flush()


def _end_with_parent(life: int) -> None:
    os.read(life, 1)
    os.kill(os.getpid(), signal.SIGTERM)
