"""Child process that calls a reader which may need far more memory than its input, or overflow the stack.

The child starts at the first call and serves further ones. It has limits of memory and processor time, so a hostile
input ends the child and not the server. It answers in lines of JSON: nothing in an answer can run code.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import IO, Any, ClassVar, NoReturn, cast

from sessions_app.store.errors import BadInput
from sessions_app.store.text_input import MAX_FILE_VALUES, parse_json

MAX_ANSWER_BYTES = 256 * 1024**2
"""Maximum bytes of the values of a call."""

MAX_DEATHS = 10
"""Number of children that calls may end; after that nothing is read."""

WATCH_S = 0.05
"""Seconds between two checks of the memory where the system has no limit."""

OUT_OF_MEMORY = 77
"""Exit status of a child that needs too much memory."""

_VALUE, _END, _ERROR = b"+", b".", b"!"
"""First bytes of the lines of an answer."""

_START = f"import sys; from {__name__} import serve; serve(*sys.argv[1:])"


class ReadingFailed(Exception):
    """A reader could not read its input; the message has the reason."""


class ReaderProcess:
    """Child process of one reader, a function `module:name` that takes texts and yields values as texts of JSON.

    Attributes:
        max_memory: most bytes of memory: address space on Linux. macOS has no such limit; there the child watches its
            resident memory.
        max_cpu_s: most seconds of processor time for one value.
    """

    max_memory: ClassVar[int] = 1024**3
    max_cpu_s: ClassVar[float] = 30.0

    def __init__(self, reader: str) -> None:
        limits = (str(self.max_memory), str(self.max_cpu_s))
        self._command = (sys.executable, "-P", "-c", _START, reader, *limits)
        self._reasons = {
            OUT_OF_MEMORY: f"it needs more than {self.max_memory / 1024**2:,.0f} MB of memory",
            -signal.SIGPROF: f"it needs more than {self.max_cpu_s:g} s of processor time",
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0

    def read(
        self, *arguments: str, object_hook: Callable[[dict[str, Any]], Any] | None = None
    ) -> Iterator[Any]:
        """Yield the values of a call.

        Raises:
            BadInput: the reader raised it.
            ReadingFailed: the reader raised another error, or needs more than it may have.
        """
        if self._deaths >= MAX_DEATHS:
            raise ReadingFailed(
                f"it was not read, because {MAX_DEATHS} others each ended the process that read them"
            )
        process, self._process = self._process or _start_process(self._command), None
        try:
            for line in self._answer_lines(process, arguments):
                if line[:1] == _VALUE:
                    yield _parse_value(line[1:], object_hook)
                    continue
                self._process = process  # the call is complete
                if line[:1] == _ERROR:
                    _raise_error(*json.loads(line[1:]))
        finally:
            if self._process is None:
                _end_process(process)

    def close(self) -> None:
        """End the child."""
        if self._process:
            _end_process(self._process)
            self._process = None

    def _answer_lines(self, process: subprocess.Popen[bytes], arguments: Sequence[str]) -> Iterator[bytes]:
        """Yield the lines of the answer to a call.

        Raises:
            ReadingFailed: the child ended before, or its answer is too long.
        """
        requests, answers = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
        try:
            requests.write(json.dumps(arguments).encode() + b"\n")
            requests.flush()
        except BrokenPipeError:
            pass  # it has ended
        left, line = MAX_ANSWER_BYTES, b""
        while line[:1] not in (_END, _ERROR):
            line = answers.readline(left)
            left -= len(line)
            if not left:
                raise ReadingFailed(f"its values have more than {MAX_ANSWER_BYTES / 1024**2:,.0f} MB")
            if not line.endswith(b"\n"):
                self._deaths += 1
                raise ReadingFailed(self._describe_end(process.wait()))
            yield line

    def _describe_end(self, code: int) -> str:
        how = signal.strsignal(-code) if code < 0 else f"exit status {code}"
        return self._reasons.get(code, f"it ended the process that read it ({how})")


def _start_process(command: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _parse_value(text: bytes, object_hook: Callable[[dict[str, Any]], Any] | None) -> Any:
    try:
        return parse_json(text, max_values=MAX_FILE_VALUES, object_hook=object_hook)
    except Exception as error:  # hostile values may cause any error in the hook
        raise ReadingFailed(str(error) or type(error).__name__) from error


def _raise_error(message: str, hint: str | None) -> NoReturn:
    raise ReadingFailed(message) if hint is None else BadInput(message, hint=hint)


def serve(reader: str, max_memory: str, max_cpu_s: str) -> None:
    """Answer the calls that arrive on standard input until it is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a reader prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the server, too, which decides
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory(int(max_memory))
    module, _, name = reader.partition(":")
    function = getattr(import_module(module), name)
    for line in sys.stdin.buffer:
        _send_answers(answers, function, json.loads(line), float(max_cpu_s))


def _send_answers(
    answers: IO[bytes], function: Callable[..., Iterator[str]], arguments: Sequence[str], cpu_s: float
) -> None:
    last = _END
    try:
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # ends the process by a signal, whatever it is doing
        for text in function(*arguments):
            answers.write(_VALUE + text.encode() + b"\n")
            answers.flush()
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BadInput as error:
        last = _ERROR + json.dumps([error.message, error.hint]).encode()
    except ReadingFailed as error:
        last = _ERROR + json.dumps([str(error), None]).encode()
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        last = _ERROR + json.dumps([f"{type(error).__name__}: {error}", None]).encode()
    signal.setitimer(signal.ITIMER_PROF, 0)
    answers.write(last + b"\n")
    answers.flush()


def _limit_memory(limit: int) -> None:
    if sys.platform == "darwin":  # it has no such limit
        threading.Thread(target=watch_memory, args=(limit,), daemon=True).start()
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def watch_memory(limit: int) -> None:
    """End this process when it has needed `limit` bytes of memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit < limit:
        time.sleep(WATCH_S)
    os._exit(OUT_OF_MEMORY)
