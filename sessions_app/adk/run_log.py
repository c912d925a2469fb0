"""Log of a run: records of Python's `logging`, and what its code prints.

A context variable tells the invocation, so tasks and `asyncio.to_thread` are attributed to their run. Text from other
threads belongs to the only active invocation; with several active ones it is not kept. Output that does not pass
`sys.stdout` or `sys.stderr` (of subprocesses and C code) is only in the output of the process.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

from sessions_app import scopes
from sessions_app.ids import SessionKey
from sessions_app.models import LogRecord
from sessions_app.traces.log_records import save_log_records
from sessions_app.traces.outbox import Unit, outbox

MAX_RECORDS = 5_000
"""Maximum records stored for an invocation: what a person can still read through by level and page."""

MAX_CHARS = 1_000_000
"""Maximum length of all these messages, in characters."""

MAX_MESSAGE = 8_000
"""Maximum length of a message; a printed line that is longer is split."""

IGNORED_LOGGERS = (
    *("devui", "sessions_app", "evals_app", "django", "uvicorn", "channels"),
    "google_adk.google.adk.telemetry",
)
"""Loggers, with those below them, of DevUI, its server and ADK's telemetry, which tell nothing about an agent."""

OUR_NAME = "devui"
"""Logger of DevUI's own note in a run's log."""

_IGNORED_PREFIXES = tuple(f"{name}." for name in IGNORED_LOGGERS)

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Place:
    """What runs in the current context."""

    agent: str = ""
    tool: str = ""
    call_id: str = ""


_NOWHERE = _Place()
_place: contextvars.ContextVar[_Place] = contextvars.ContextVar("devui_log_place", default=_NOWHERE)
_current: contextvars.ContextVar[RunLog | None] = contextvars.ContextVar("devui_run_log", default=None)
_active: set[RunLog] = set()


class RunLog:
    """Log of one invocation. Thread-safe. Records that come after its end are kept, too.

    Attributes:
        last_event_id: id of the invocation's last event.
    """

    def __init__(self, key: SessionKey, invocation_id: str, clock: Clock) -> None:
        self.last_event_id = ""
        self._key = key
        self._invocation_id = invocation_id
        self._clock = clock
        self._ref = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._waiting: list[LogRecord] = []
        self._lines: dict[str, str] = {}
        self._count = 0
        self._chars = 0
        self._dropped = 0
        _current.set(self)
        _active.add(self)
        _capture()

    def note(self, level: int, source: str, message: str, logger: str = "") -> None:
        """Keep a record, unless the invocation has too many."""
        with self._lock:
            if self._count >= MAX_RECORDS or self._chars >= MAX_CHARS:
                self._dropped += 1
                return
            self._add(level, source, message, logger)

    def print(self, source: str, text: str) -> None:
        """Keep the complete lines of printed text; the rest waits for its end."""
        level = logging.WARNING if source == LogRecord.Source.STDERR else logging.INFO
        with self._lock:
            *lines, rest = (self._lines.pop(source, "") + text).split("\n")
            if len(rest) > MAX_MESSAGE:
                lines, rest = [*lines, rest], ""
            if rest:
                self._lines[source] = rest
        for line in lines:
            for start in range(0, len(line), MAX_MESSAGE):
                self.note(level, source, line[start : start + MAX_MESSAGE])

    def close(self) -> None:
        """Keep unfinished lines, and note how many records were dropped."""
        _active.discard(self)
        if _current.get() is self:
            _current.set(None)
        for source in list(self._lines):
            self.print(source, "\n")
        with self._lock:
            if self._dropped:
                note = (
                    f"{self._dropped:,} further records were dropped: {MAX_RECORDS:,} records or"
                    f" {MAX_CHARS:,} characters of an invocation are kept."
                )
                self._add(logging.WARNING, LogRecord.Source.LOG, note, OUR_NAME)
                self._dropped = 0
        outbox().enqueue(self._unit)

    def _add(self, level: int, source: str, message: str, logger: str) -> None:
        self._count += 1
        self._chars += min(len(message), MAX_MESSAGE)
        place = _place.get()
        is_queued = bool(self._waiting)
        self._waiting.append(
            LogRecord(
                invocation_id=self._invocation_id,
                ref=self._ref,
                number=self._count,
                at=self._clock(),
                level=level,
                source=source,
                logger=logger,
                agent=place.agent,
                tool=place.tool,
                call_id=place.call_id,
                after_event_id=self.last_event_id,
                message=message[:MAX_MESSAGE],
            )
        )
        if not is_queued:
            outbox().enqueue(self._unit)

    def _unit(self) -> Unit:
        """Return the write of the waiting records. Credentials are removed here, in the outbox's thread."""
        with self._lock:
            records, self._waiting = self._waiting, []
        for record in records:
            record.message = scopes.clean_error(record.message)
            for name in ("logger", "agent", "tool", "call_id"):
                setattr(record, name, scopes.clean_text(getattr(record, name)))
        return partial(save_log_records, self._key, records)


def note_agent(agent: str) -> None:
    """Note the agent that runs in the current context, and that no tool does."""
    _place.set(_Place(agent))


def note_tool(agent: str, tool: str, call_id: str) -> None:
    """Note the tool call that the current context carries out."""
    _place.set(_Place(agent, tool, call_id))


def _current_run_log() -> RunLog | None:
    """Return the log of the context's run; outside of one, that of the only active run."""
    if run_log := _current.get():
        return run_log
    active = list(_active)
    return active[0] if len(active) == 1 else None


class _Handler(logging.Handler):
    """Notes log records. Never raises: a record that cannot be formatted is noted as far as it can be."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            is_ignored = f"{record.name}.".startswith(_IGNORED_PREFIXES)
            run_log = None if is_ignored else _current_run_log()
            if run_log is not None:
                run_log.note(record.levelno, LogRecord.Source.LOG, _text_of(record), record.name)


class _Tee:
    """A standard stream that also notes what is printed. Everything else is the stream's own."""

    def __init__(self, stream: TextIO, source: LogRecord.Source) -> None:
        self._stream = stream
        self._source = source

    def write(self, text: str) -> int:
        """Write text, and note it unless a log handler writes it."""
        written = self._stream.write(text)
        with suppress(Exception):
            is_logged = sys._getframe(1).f_globals.get("__name__") == "logging"
            run_log = None if is_logged else _current_run_log()
            if run_log is not None:
                run_log.print(self._source, text)
        return written

    def writelines(self, lines: Any) -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    def __iter__(self) -> Any:
        return iter(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_handler = _Handler()


def _capture() -> None:
    """Note log records and printed text from now on. May be called again: programs replace handlers and streams."""
    root = logging.getLogger()
    if _handler not in root.handlers:
        root.addHandler(_handler)
    for name, source in (("stdout", LogRecord.Source.STDOUT), ("stderr", LogRecord.Source.STDERR)):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Tee):
            setattr(sys, name, _Tee(stream, source))


def _text_of(record: logging.LogRecord) -> str:
    """Return the message of a record with its traceback."""
    try:
        message = record.getMessage()
    except Exception as error:
        message = f"{str(record.msg)[:MAX_MESSAGE]} (cannot be formatted: {type(error).__name__})"
    if record.exc_info:
        message = f"{message}\n{logging.Formatter().formatException(record.exc_info)}"
    return message
