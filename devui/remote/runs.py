"""Runs of a remote server's agents: asked for by `/run_sse`, recorded as their events come.

A run is a row that waits for its turn like any other. What it streams is stored at once; what the session has when
it is over counts, so the copy is read anew then. Cancelling closes the stream, which is how ADK cancels.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx
from typing_extensions import override

from devui.remote import dialects
from devui.remote.dialects import Failure, Told
from devui.remote.http_client import MOST_REFUSAL, MOST_SESSION, Answer, Line
from devui.remote.session_copies import Copies
from devui.runtime.run_queue import LiveRun, Status, Turns
from sessions_app import events
from sessions_app.agents.remotes import upstream_app_name
from sessions_app.errors import BadInput, DevUIError, DuplicateEvent
from sessions_app.ids import SessionKey
from sessions_app.models import Event, Run
from sessions_app.realms import refuse_read_only
from sessions_app.store import units_of_work

CATCH_UP_S = 60.0
"""Seconds that reading a session may take at the end of its run; what is missing then comes with the next read."""

CANCEL_S = 2.0
"""The same after a cancel, and the time a run has to end then."""

LATER_S = 1.0
"""Seconds after a cancel until the session is read once more: its server may still write what it broke off."""

ABSENT = frozenset({404, 405, 501})
"""What servers answer on a path that they do not have."""

log = logging.getLogger(__name__)

Tell = Callable[[Told], None]
Work = Callable[[LiveRun], Awaitable[None]]


class RemoteFailure(Exception):
    """An agent failed on its server."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RemoteRuns(Turns):
    """The runs of one remote server."""

    def __init__(self, runtime_id: str, line: Line, copies: Copies) -> None:
        super().__init__(runtime_id, on_left=lambda: None)
        self._line = line
        self._copies = copies

    def start(self, run: Run, tell: Tell = lambda told: None) -> LiveRun:
        """Carry out a queued run, whoever listens. `tell` gets each event as it comes, pieces too."""
        request = json.loads(run.request)
        return self.carry_out(run, lambda live: self._run(live, request, tell))

    def carry_out(self, run: Run, work: Work) -> LiveRun:
        """Do the work of a queued run when its turn has come, and write how it ended."""
        live = self.enter(run, author=upstream_app_name(run.session.app_name))
        live.task = self._spawn(self._carry_out(live, work))
        return live

    @override
    async def cancel(self, run_id: str) -> bool:
        """Close a run's stream, and return whether it has ended."""
        live = self.active.get(run_id)
        if live is None:
            return True
        live.abort.set()
        self._wake()
        if live.task is not None:
            live.task.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(live.ended.wait(), 2 * CANCEL_S)
        return live.ended.is_set()

    async def close(self, why: str) -> None:
        """Cancel every run: the server here ends."""
        await self.cancel_all(why)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, live: LiveRun, work: Work) -> None:
        try:
            if not await self.take_turn(live):
                await self.leave_unclaimed(live)
                return
            await work(live)
            await self.finish(live, await self.good_end(live))
        except asyncio.CancelledError:
            await asyncio.shield(self._spawn(self._end_cancelled(live)))
        except RemoteFailure as error:
            await self._fail(live, error.failure.kind, error.failure.message)
        except DevUIError as error:
            await self._fail(live, type(error).__name__, f"{error.message} {error.hint}".strip())
        except Exception as error:
            log.exception("Run %s of %s failed.", live.id, self._line.url)
            await self._fail(live, type(error).__name__, str(error))

    async def _run(self, live: LiveRun, request: Mapping[str, Any], tell: Tell) -> None:
        """Ask for the run, store what comes, and read the session when it is over.

        Raises:
            RemoteFailure: the agent failed.
            DevUIError: the server cannot be asked, refuses, fails or breaks off.
        """
        session = live.session
        refuse_read_only(session)
        if session.realm:
            raise BadInput(
                f"Agents of {self._line.url} know their own sessions only; this fork has state of its own.",
                hint="It can be read and edited; the session it is from can be run.",
            )
        key = SessionKey("", session.app_name, session.user_id, session.session_id)
        body = dialects.run_body(
            self._copies.dialect, upstream_app_name(key.app_name), key.user_id, key.session_id, request
        )
        recorder = _Recorder(self, self._copies, live, key, tell)
        try:
            await self._stream(recorder, body)
        finally:
            if not live.abort.is_set():
                await self.catch_up(key, recorder.came, CATCH_UP_S)
        if recorder.failure is not None:
            raise RemoteFailure(recorder.failure)

    async def _stream(self, recorder: _Recorder, body: dict[str, Any]) -> None:
        async with self._line.open("POST", "/run_sse", body, seconds=None) as response:
            if response.is_success:
                await self._take(recorder, response)
                return
            refusal = Answer(response.status_code, response.headers, await _start(response))
        if refusal.status in ABSENT and await self._has_session(recorder.key):
            await self._at_once(recorder, body)
            return
        raise self._copies.refusal(refusal)

    async def _take(self, recorder: _Recorder, response: httpx.Response) -> None:
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            raise self._copies.strange(ValueError(f"a run that streams {kind or 'nothing known'}"))
        async for name, data in _frames(self._line.lines(response)):
            await recorder.take(await read_frame(self._copies, name, data))

    async def _at_once(self, recorder: _Recorder, body: dict[str, Any]) -> None:
        """Run an agent on a server that does not stream: its events come together, when it is done."""
        asked = {name: value for name, value in body.items() if name != "streaming"}
        answer = await self._line.ask("POST", "/run", asked, most=MOST_SESSION, seconds=24 * 3600.0)
        if not answer.is_success:
            raise self._copies.refusal(answer)
        try:
            events = json.loads(answer.body) or []
            for raw in events:
                await recorder.take(dialects.event(self._copies.dialect, raw, time.time()))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._copies.strange(ValueError("a run answers a list of events")) from error

    async def _has_session(self, key: SessionKey) -> bool:
        """Tell whether a 404 was said of the path, and not of the session.

        Raises:
            SessionMissing: the server has no such session.
        """
        await self._copies.catch_up(key)
        return True

    async def catch_up(self, key: SessionKey, came: Mapping[str, float], seconds: float) -> None:
        """Bring the copy up to date. That this fails must not hide how the run ended; the copy says so."""
        try:
            async with asyncio.timeout(seconds):
                await self._copies.catch_up(key, came)
        except TimeoutError:
            log.warning("Session %r of %s could not be read in time.", key.session_id, self._line.url)
        except DevUIError as error:
            log.warning("Session %r of %s: %s", key.session_id, self._line.url, error.message)

    async def _end_cancelled(self, live: LiveRun) -> None:
        """End a run whose stream is closed, with what its session has by then."""
        session = live.session
        key = SessionKey("", session.app_name, session.user_id, session.session_id)
        live.abort.set()
        if not session.realm and self._running.get(session.pk) is live:
            await self.catch_up(key, {}, CANCEL_S)
        await self.finish(live, Status.CANCELLED)
        if not session.realm:
            self._spawn(self._look_later(key))

    async def _look_later(self, key: SessionKey) -> None:
        await asyncio.sleep(LATER_S)
        await self.catch_up(key, {}, CATCH_UP_S)

    async def _fail(self, live: LiveRun, kind: str, message: str) -> None:
        if live.abort.is_set():
            await self.finish(live, Status.CANCELLED)
        else:
            await self.finish(live, Status.FAILED, error_type=kind, error=message)


class _Recorder:
    """Stores what a run streams, and tells who listens.

    Attributes:
        came: times of the events that were stored, by their ids.
        failure: the last error that the server told in the stream.
    """

    def __init__(self, runs: RemoteRuns, copies: Copies, live: LiveRun, key: SessionKey, tell: Tell) -> None:
        self.key = key
        self.came: dict[str, float] = {}
        self.failure: Failure | None = None
        self._runs = runs
        self._copies = copies
        self._live = live
        self._tell = tell

    async def take(self, told: Told | Failure | None) -> None:
        """Take what a frame tells."""
        if isinstance(told, Failure):
            self.failure = told
        elif isinstance(told, Told):
            if told.is_partial:
                publish_chunks(self._live, told.wire)
            else:
                await self._store(told)
                if self._copies.dialect.fails_by_event:
                    self.failure = _failure_in(told)
            self._tell(told)

    async def _store(self, told: Told) -> None:
        if not self.came:  # the message itself never comes by the stream, and stands before what answers it
            await self._copies.catch_up(self.key)
        try:
            appended = await self._copies.append(self.key, told)
            seq = appended.seq
        except DuplicateEvent:
            seq = await units_of_work.read(_seq_of, self._live.session.pk, told.id)
        self.came[told.id] = told.wire["timestamp"]
        self._runs.note_stored(
            self._live.session.pk,
            seq,
            event_id=told.id,
            author=told.wire.get("author") or "",
            branch=told.wire.get("branch") or "",
            invocation_id=told.wire.get("invocationId") or "",
        )


def publish_chunks(live: LiveRun, event: Mapping[str, Any]) -> None:
    """Tell who listens to a run the texts of a piece of an event."""
    for part in events.parts_of(event):
        if isinstance(text := part.get("text"), str) and text:
            live.frames.publish(
                "chunk",
                author=event.get("author") or "",
                branch=event.get("branch") or "",
                invocation_id=event.get("invocationId") or "",
                event_id=event["id"],
                text=text,
                thought=bool(part.get("thought")),
            )


def _failure_in(told: Told) -> Failure | None:
    """Return the error that an event tells."""
    code, message = told.wire.get("errorCode"), told.wire.get("errorMessage")
    return Failure(code or "RemoteError", message or "") if code or message else None


async def _frames(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str]]:
    """Yield name and data of each frame of a stream of server-sent events; comments are left out."""
    name, data = "", list[str]()
    async for line in lines:
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.strip()
    if data:
        yield name, "\n".join(data)


LARGE = 100_000
"""Characters of a frame that is read beside the event loop."""


async def read_frame(copies: Copies, name: str, data: str) -> Told | Failure | None:
    """Return what a frame tells; None: nothing.

    Raises:
        UpstreamFailed: no ADK server sends that.
    """
    try:
        if len(data) < LARGE:
            return dialects.in_frame(copies.dialect, name, data)
        return await asyncio.to_thread(dialects.in_frame, copies.dialect, name, data)
    except ValueError as error:
        raise copies.strange(ValueError(f"a frame that cannot be read: {error}")) from error


async def _start(response: httpx.Response) -> bytes:
    """Return the beginning of an answer that says no."""
    held = b""
    async for chunk in response.aiter_bytes():
        held += chunk
        if len(held) > MOST_REFUSAL:
            break
    return held[:MOST_REFUSAL]


def _seq_of(session_pk: int, event_id: str) -> int:
    return Event.objects.filter(session_id=session_pk, event_id=event_id).values_list("seq", flat=True).get()
