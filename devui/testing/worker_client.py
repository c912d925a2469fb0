"""Client of the worker process that runs an agent for a test suite."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sessions_app.runs.process_output import OutputLimit, OutputReader

STDERR = 2
"""Descriptor of stderr: a suite may have replaced `sys.stderr`."""

EXIT_TIMEOUT_S = 10.0
"""Seconds that the process has to end by itself."""


class Refused(Exception):
    """The request cannot be carried out; the text has the reason and a hint."""


class _WorkerExited(Exception):
    """The process ended before its last reply.

    Attributes:
        code: exit status; a negative one is a signal's number.
    """

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


class AgentProcess:
    """A process for one agent, started at its first request."""

    def __init__(self, agent: Path, store: str, folder: Path) -> None:
        """Use the agent in a folder and the store at a URL; relative paths in configurations start at `folder`."""
        self._agent = agent
        self._store = store
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._output: OutputReader | None = None
        self._ids = itertools.count(1)
        self._answers: dict[int, queue.Queue[Mapping[str, Any] | None]] = {}
        self._starting = threading.Lock()

    def ask(self, do: str, **request: Any) -> Iterator[Mapping[str, Any]]:
        """Send a request and yield its replies. A run whose process dies is resumed in a new process.

        Raises:
            Refused: the request cannot be carried out, or the process ended.
        """
        run = ""
        while True:
            try:
                for answer in self._ask(do, request):
                    run = answer.get("run", run)
                    yield answer
                return
            except _WorkerExited as ended:
                if not run:
                    message = f"The process of the agent {self._agent.name!r} ended ({ended.code})"
                    raise Refused(f"{message}: its output is above.") from None
                do, request = "go_on", {"run": run, "exit": ended.code}

    def _ask(self, do: str, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Send a request to the current process and yield its replies.

        Raises:
            Refused: the request cannot be carried out.
            _WorkerExited: the process ended.
        """
        request_id = next(self._ids)
        answers = self._answers[request_id] = queue.Queue()
        process = self._running()
        line = json.dumps({"id": request_id, "do": do, "agent": str(self._agent), **request})
        try:
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except OSError:
            answers.put(None)
        try:
            while True:
                answer = answers.get()
                if answer is None:
                    code = process.wait()
                    self._finish_output()
                    raise _WorkerExited(code)
                if "refused" in answer:
                    raise Refused("\n".join(filter(None, (answer["refused"], answer["hint"]))))
                yield answer
                if answer.get("last"):
                    return
        finally:
            del self._answers[request_id]

    def close(self) -> None:
        """End the process; an active run is cancelled and can be resumed."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        if self._answers:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._finish_output()

    def _finish_output(self) -> None:
        """Forward the rest of the process's output."""
        if self._output is not None:
            self._output.finish()

    def _running(self) -> subprocess.Popen[str]:
        with self._starting:
            if self._process is None or self._process.poll() is not None:
                self._process = self._start()
                threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
            return self._process

    def _start(self) -> subprocess.Popen[str]:
        atexit.register(self.close)
        output = OutputReader(OutputLimit.to(STDERR))
        process = subprocess.Popen(
            [sys.executable, "-m", "devui.testing.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output.fd,
            text=True,
            encoding="utf-8",
            cwd=self._folder,
            env=self._environment(),
        )
        output.start()
        self._output = output
        return process

    def _environment(self) -> dict[str, str]:
        """Return the environment: the suite's import path, and DevUI's own settings and store."""
        path = os.pathsep.join(dict.fromkeys(entry or os.getcwd() for entry in sys.path))
        own = {
            "PYTHONPATH": path,
            "DJANGO_SETTINGS_MODULE": "devui.settings",
            "DATABASE_URL": self._store,
            "DEVUI_AGENTS_DIR": str(self._agent),
        }
        return {**os.environ, **own}

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for line in process.stdout:
            answer = json.loads(line)
            if (waiting := self._answers.get(answer["id"])) is not None:
                waiting.put(answer)
        for waiting in list(self._answers.values()):
            waiting.put(None)
