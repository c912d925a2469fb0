"""Web processes and workers of a team on one machine, as children of one command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

END_S = 10.0
"""Seconds that runs have to end after a signal, before workers end them."""

KILL_S = 5.0
"""Seconds that processes have to end after a second signal, before they are killed."""

END_SEQUENCE = ((signal.SIGTERM, END_S), (signal.SIGTERM, KILL_S), (signal.SIGKILL, KILL_S))
"""Signals that end a process, each with the seconds until the next."""

POLL_S = 0.1

READY_WORDS = ("DevUI serves", "Worker with")
"""Beginnings of the lines that processes write once they serve."""


@dataclass(frozen=True, slots=True)
class ProcessCommand:
    """The command of a process of the team, with the name that its lines get on the terminal."""

    name: str
    arguments: Sequence[str]


class TeamProcess:
    """A child process, whose lines are written with its name. It ends when the command is killed (`team_member`)."""

    def __init__(self, command: ProcessCommand, write_line: Callable[[str], None]) -> None:
        self.name = command.name
        self.is_ready = False
        self.is_end_reported = False
        self._write_line = write_line
        self._process = subprocess.Popen(
            [sys.executable, "-m", "devui.serving.team_member", *command.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C reaches only the command, which ends the team in order
        )
        self._reader = threading.Thread(target=self._copy_lines, daemon=True)
        self._reader.start()

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self._process.poll()

    def join_output(self) -> None:
        """Wait until the last line of an ended process is written."""
        self._reader.join(KILL_S)

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def _copy_lines(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - a pipe, see above
        for line in self._process.stdout:
            self.is_ready = self.is_ready or line.startswith(READY_WORDS)
            self._write_line(f"{self.name:<9}| {line.rstrip()}")


class TeamProcesses:
    """All processes of a team, from their start to their end."""

    def __init__(self, commands: Sequence[ProcessCommand], write_line: Callable[[str], None]) -> None:
        self._write_line = write_line
        self._is_ending = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._request_end)
        self._processes = [TeamProcess(command, write_line) for command in commands]

    def wait_until_ready(self) -> bool:
        """Wait until all processes serve. Return False if one has ended, or a signal ends the team before."""
        while not (self._is_ending or self.describe_ended()):
            if all(process.is_ready for process in self._processes):
                return True
            time.sleep(POLL_S)
        return False

    def wait(self) -> None:
        """Wait for a signal, or until all processes have ended. A process that ends alone is reported."""
        while not self._is_ending:
            for process in self._processes:
                status = process.poll()
                if status is not None and not process.is_end_reported:
                    process.is_end_reported = True
                    self._write_line(
                        f"{process.name} has ended with status {status}; the others keep running."
                    )
            if all(process.is_end_reported for process in self._processes):
                return
            time.sleep(POLL_S)

    def end(self) -> None:
        """End all processes. Workers have `END_S` to finish their runs, or until a second signal."""
        self._is_ending = False
        for number, patience in END_SEQUENCE:
            running = [process for process in self._processes if process.poll() is None]
            for process in running:
                process.send_signal(number)
            deadline = time.monotonic() + patience
            while any(process.poll() is None for process in running):
                if self._is_ending or time.monotonic() > deadline:
                    self._is_ending = False
                    break
                time.sleep(POLL_S)
        for process in self._processes:
            process.join_output()

    def describe_ended(self) -> str:
        """Return the processes that have ended, each with its status; empty if all run."""
        return ", ".join(
            f"{process.name} has ended with status {status}"
            for process in self._processes
            if (status := process.poll()) is not None
        )

    def _request_end(self, number: int, frame: FrameType | None) -> None:
        self._is_ending = True
