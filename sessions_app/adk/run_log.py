"""Log of a run: records of Python's `logging`, and printed lines.

A context variable has the run, so the output of tasks and of `asyncio.to_thread` belongs to the run that started them.
Output of other threads belongs to the active run; while several are active, it is not stored. Output of subprocesses
and C code, which does not pass `sys.stdout` or `sys.stderr`, is only in the output of the process.
"""

from __future__ import annotations

import contextvars
import logging
import re
import sys
import threading
import traceback
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

from typing_extensions import override

from sessions_app.store import scopes
from sessions_app.store.models import LogRecord
from sessions_app.store.session_key import SessionKey
from sessions_app.store.short_texts import truncate
from sessions_app.store.traces.log_records import NewLogRecord, save_log_records
from sessions_app.store.traces.outbox import Unit, outbox

MAX_RECORDS = 5_000
"""Maximum records stored for an invocation: as many as a person can still read, by level and page."""

MAX_CHARS = 1_000_000
"""Maximum total length of their messages, in characters."""

MAX_MESSAGE = 8_000
"""Maximum length of a message; a printed line that is longer is split."""

MAX_CREDENTIAL = 1_500
"""Characters behind a cut that are searched for credentials, too, so that the cut leaves no part of one."""

_STATED_LEVEL = re.compile(
    r"[\d\s:.,/|\[\]TZ+-]{0,40}(?:(?P<warning>WARN(?:ING)?\b)|(?:ERROR|CRITICAL|FATAL)\b|Traceback \(most recent)"
)
"""Start of a printed line that states its level, after a time."""

IGNORED_LOGGERS = (
    *("devui", "sessions_app", "evals_app", "django", "uvicorn", "channels"),
    "google_adk.google.adk.telemetry",
)
"""Loggers of DevUI, its server and ADK's telemetry, and their children. Their records are not about an agent."""

OWN_LOGGER = "devui"
"""Logger of the record that says how many records were dropped."""

_IGNORED_PREFIXES = tuple(f"{name}." for name in IGNORED_LOGGERS)

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Origin:
    """Agent and tool call that run in the current context."""

    agent: str = ""
    tool: str = ""
    call_id: str = ""


_NO_ORIGIN = _Origin()
_origin: contextvars.ContextVar[_Origin] = contextvars.ContextVar("devui_log_origin", default=_NO_ORIGIN)
_current: contextvars.ContextVar[RunLog | None] = contextvars.ContextVar("devui_run_log", default=None)
_active: set[RunLog] = set()


class RunLog:
    """Log of one invocation. Thread-safe. It also stores records that come after the end of the invocation.

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
        self._waiting: list[NewLogRecord] = []
        self._lines: dict[str, str] = {}
        self._count = 0
        self._chars = 0
        self._dropped = 0
        _current.set(self)
        _active.add(self)
        _install_capture()

    def note(self, level: int, source: str, message: str, logger: str = "") -> None:
        """Store a record, unless the invocation has too many."""
        with self._lock:
            if self._is_full():
                self._dropped += 1
                return
            self._add_record(level, source, message, logger)

    def note_exception(self, tool: str, error: BaseException) -> None:
        """Store the exception of a tool with its traceback: a plug-in may answer the model in its place."""
        lines = "".join(traceback.format_exception(error))
        message = truncate(f"{tool} raised {type(error).__name__}: {error}", MAX_MESSAGE)
        self.note(logging.ERROR, LogRecord.Source.LOG, f"{message}\n{lines}", OWN_LOGGER)

    def print(self, source: str, text: str) -> None:
        """Store the complete lines of printed text; an incomplete line waits for its end."""
        with self._lock:
            if self._is_full():
                self._dropped += text.count("\n")
                return
            *lines, incomplete_line = (self._lines.pop(source, "") + text).split("\n")
            if len(incomplete_line) > MAX_MESSAGE + MAX_CREDENTIAL:
                incomplete_line = scopes.clean_error(incomplete_line[:MAX_CHARS])
                lines, incomplete_line = (
                    [*lines, incomplete_line[:-MAX_CREDENTIAL]],
                    incomplete_line[-MAX_CREDENTIAL:],
                )
            if incomplete_line:
                self._lines[source] = incomplete_line
        for line in lines:
            level = _line_level(line, source)
            message = line if len(line) <= MAX_MESSAGE else scopes.clean_error(line[:MAX_CHARS])
            for start in range(0, len(message), MAX_MESSAGE):
                self.note(level, source, message[start : start + MAX_MESSAGE])
            if len(line) > MAX_CHARS:
                with self._lock:
                    self._dropped += 1

    def close(self) -> None:
        """Store incomplete lines, and a record with the number of dropped records."""
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
                self._add_record(logging.WARNING, LogRecord.Source.LOG, note, OWN_LOGGER)
                self._dropped = 0
        self._request_write()

    def _request_write(self) -> None:
        outbox().enqueue(self._waiting_write)

    def _is_full(self) -> bool:
        return self._count >= MAX_RECORDS or self._chars >= MAX_CHARS

    def _add_record(self, level: int, source: str, message: str, logger: str) -> None:
        self._count += 1
        self._chars += min(len(message), MAX_MESSAGE)
        origin = _origin.get()
        is_queued = bool(self._waiting)
        self._waiting.append(
            NewLogRecord(
                invocation_id=self._invocation_id,
                ref=self._ref,
                number=self._count,
                at=self._clock(),
                level=level,
                source=source,
                logger=logger,
                agent=origin.agent,
                tool=origin.tool,
                call_id=origin.call_id,
                after_event_id=self.last_event_id,
                message=message[: MAX_MESSAGE + MAX_CREDENTIAL],
            )
        )
        if not is_queued:
            self._request_write()

    def _waiting_write(self) -> Unit:
        """Return the write of the waiting records. Removes credentials here, because the agent does not wait for it."""
        with self._lock:
            records, self._waiting = self._waiting, []
        return partial(save_log_records, self._key, [_clean_record(record) for record in records])


class UnstoredLog(RunLog):
    """Log of what runs in a context without a session. Its records are returned, and not stored."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(SessionKey("", "", "", ""), "", clock)

    def take_records(self) -> list[NewLogRecord]:
        """Close the log, and return its records without credentials."""
        self.close()
        with self._lock:
            records, self._waiting = self._waiting, []
        return [_clean_record(record) for record in records]

    @override
    def _request_write(self) -> None:
        """Keep the records for `take_records`."""


def note_agent(agent: str) -> None:
    """Note the agent that runs in the current context, without a tool call."""
    _origin.set(_Origin(agent))


def note_tool(agent: str, tool: str, call_id: str) -> None:
    """Note the tool call that runs in the current context."""
    _origin.set(_Origin(agent, tool, call_id))


def _current_run_log() -> RunLog | None:
    """Return the log of the context's run; outside of a run, the log of the active run if there is only one."""
    if run_log := _current.get():
        return run_log
    active = list(_active)
    return active[0] if len(active) == 1 else None


class _Handler(logging.Handler):
    """Adds log records to the log of their run. Never raises, because it runs inside the agent's code."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            is_ignored = f"{record.name}.".startswith(_IGNORED_PREFIXES)
            run_log = None if is_ignored else _current_run_log()
            if run_log is not None:
                run_log.note(record.levelno, LogRecord.Source.LOG, _record_text(record), record.name)


class _Tee:
    """Wrapper of a standard stream that also adds printed text to the log of the run."""

    def __init__(self, stream: TextIO, source: LogRecord.Source) -> None:
        self._stream = stream
        self._source = source

    def write(self, text: str) -> int:
        """Write text, and add it to the run's log unless a log handler writes it: the log has its record already."""
        length = self._stream.write(text)
        with suppress(Exception):
            is_logged = sys._getframe(1).f_globals.get("__name__") == "logging"
            run_log = None if is_logged else _current_run_log()
            if run_log is not None:
                run_log.print(self._source, text)
        return length

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __iter__(self) -> Any:
        return iter(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_handler = _Handler()


def _install_capture() -> None:
    """Install the log handler and the stream wrappers. Repeated for each run, because programs replace both."""
    root = logging.getLogger()
    if _handler not in root.handlers:
        root.addHandler(_handler)
    for name, source in (("stdout", LogRecord.Source.STDOUT), ("stderr", LogRecord.Source.STDERR)):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Tee):
            setattr(sys, name, _Tee(stream, source))


def _clean_record(record: NewLogRecord) -> NewLogRecord:
    """Return a record without credentials and without characters that a column cannot hold."""
    return record._replace(
        logger=scopes.clean_text(record.logger),
        agent=scopes.clean_text(record.agent),
        tool=scopes.clean_text(record.tool),
        call_id=scopes.clean_text(record.call_id),
        message=_cut_message(record.message),
    )


def _cut_message(message: str) -> str:
    """Return a message without credentials, cut so that no part of one is left at its end."""
    cleaned = scopes.clean_error(message)
    is_cut = len(message) == MAX_MESSAGE + MAX_CREDENTIAL
    uncut = cleaned[: max(0, len(cleaned) - MAX_CREDENTIAL)] if is_cut else cleaned
    return f"{uncut[: MAX_MESSAGE - 1]}…" if is_cut or len(uncut) > MAX_MESSAGE else uncut


def _line_level(line: str, source: str) -> int:
    """Return the level that a printed line states, or that of its stream if that is higher."""
    level = logging.WARNING if source == LogRecord.Source.STDERR else logging.INFO
    if match := _STATED_LEVEL.match(line):
        return max(level, logging.WARNING if match["warning"] else logging.ERROR)
    return level


def _record_text(record: logging.LogRecord) -> str:
    """Return the message of a record with its traceback."""
    try:
        message = record.getMessage()
    except Exception as error:
        message = f"{truncate(str(record.msg), MAX_MESSAGE)} (cannot be formatted: {type(error).__name__})"
    if record.exc_info:
        message = f"{message}\n{logging.Formatter().formatException(record.exc_info)}"
    return message
