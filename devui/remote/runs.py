"""Runs of a remote server's agents: started by `/run_sse`, recorded as their events arrive.

A run is a row in the queue like any other. Streamed events are stored at once; the session is the authority, so the
copy is read again after the run. Cancelling closes the stream, which is how ADK cancels.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import httpx

from devui.remote.http_client import RemoteHttpClient
from devui.remote.responses import RemoteEvent, ReportedFailure
from devui.remote.session_copies import SessionCopies
from devui.runtime.run_queue import ActiveRun, RunQueue, Status
from sessions_app.agents.remotes import upstream_app_name
from sessions_app.delivery.failure import Failure
from sessions_app.store import events
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError, DuplicateEvent
from sessions_app.store.models import Event, Run
from sessions_app.store.realms import refuse_read_only
from sessions_app.store.session_key import SessionKey

CATCH_UP_S = 60.0
"""Seconds that reading a session may take after its run; missing events follow with the next read."""

CANCEL_S = 2.0
"""The same after a cancellation, and the time that a run then has to end."""

REREAD_DELAY_S = 1.0
"""Seconds after a cancellation until the session is read once more: its server may still write interrupted events."""

MISSING_PATH_STATUSES = frozenset({404, 405, 501})
"""Statuses of servers on paths that they do not have."""

log = logging.getLogger(__name__)

EventListener = Callable[[RemoteEvent], None]
RunWork = Callable[[ActiveRun], Awaitable[None]]


class RemoteFailure(Exception):
    """An agent failed on its server."""

    def __init__(self, failure: ReportedFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RemoteRuns(RunQueue):
    """The runs of one remote server."""

    def __init__(self, runtime_id: str, http: RemoteHttpClient, copies: SessionCopies) -> None:
        super().__init__(runtime_id, on_left=lambda: None, abort_s=0, cancel_s=2 * CANCEL_S)
        self._http = http
        self._copies = copies

    def start(self, run: Run, on_event: EventListener = lambda event: None) -> ActiveRun:
        """Execute a queued run in the background. `on_event` gets each event as it arrives, chunks included."""
        request = json.loads(run.request)
        return self.carry_out(run, lambda active: self._carry_out_run(active, request, on_event))

    def carry_out(self, run: Run, work: RunWork) -> ActiveRun:
        """Execute the work of a queued run in its turn, and record its end."""
        active = self.add_run(run, author=upstream_app_name(run.session.app_name))
        active.task = self._tasks.start(self._carry_out(active, work))
        return active

    async def close(self, why: str) -> None:
        """Cancel every run, because this server stops."""
        await self.cancel_all(why)
        await self._tasks.cancel()

    async def _carry_out(self, active: ActiveRun, work: RunWork) -> None:
        try:
            if not await self.take_turn(active):
                await self.release_unclaimed(active)
                return
            await work(active)
            await self.finish(active, await self.final_status(active))
        except asyncio.CancelledError:
            await asyncio.shield(self._tasks.start(self._end_cancelled(active)))
        except RemoteFailure as error:
            await self._end_failed_run(active, Failure(error.failure.kind, error.failure.message))
        except DevUIError as error:
            await self._end_failed_run(active, Failure.of(error))
        except Exception as error:
            log.exception("Run %s of %s failed.", active.id, self._http.url)
            await self._end_failed_run(active, Failure(type(error).__name__, str(error)))

    async def _carry_out_run(
        self, active: ActiveRun, request: Mapping[str, Any], on_event: EventListener
    ) -> None:
        """Start the run, store its events, and read the session at its end."""
        session = active.session
        refuse_read_only(session)
        if session.realm:
            raise BadInput(
                f"Agents of {self._http.url} can use only their own sessions; this fork has its own state.",
                hint="Run the original session; the fork can be read and edited.",
            )
        key = SessionKey("", session.app_name, session.user_id, session.session_id)
        body = self._copies.dialect.run_body(
            upstream_app_name(key.app_name), key.user_id, key.session_id, request
        )
        recorder = _Recorder(self, self._copies, active, key, on_event)
        try:
            await self._request_stream(recorder, body)
        finally:
            if not active.abort.is_set():
                await self.catch_up(key, recorder.arrival_times, CATCH_UP_S)
        if recorder.failure is not None:
            raise RemoteFailure(recorder.failure)

    async def _request_stream(self, recorder: _Recorder, body: dict[str, Any]) -> None:
        async with self._http.open("POST", "/run_sse", body, seconds=None) as response:
            if response.is_success:
                await self._take_response(recorder, response)
                return
            refusal = await self._http.read(response)
        if refusal.status in MISSING_PATH_STATUSES:
            await self._copies.catch_up(recorder.key)  # fails if not the path but the session is missing
        raise self._copies.refusal_error(refusal)

    async def _take_response(self, recorder: _Recorder, response: httpx.Response) -> None:
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            raise self._copies.malformed_error(
                ValueError(f"a run streams {kind or 'an unknown content type'}")
            )
        async for name, data in _sse_frames(self._http.lines(response)):
            await recorder.take(await read_frame(self._copies, name, data))

    async def catch_up(self, key: SessionKey, arrival_times: Mapping[str, float], seconds: float) -> None:
        """Update the copy. Errors are only logged, so that they do not hide the run's end; the copy has them, too."""
        try:
            async with asyncio.timeout(seconds):
                await self._copies.catch_up(key, arrival_times)
        except TimeoutError:
            log.warning("Session %r of %s could not be read in time.", key.session_id, self._http.url)
        except DevUIError as error:
            log.warning("Session %r of %s: %s", key.session_id, self._http.url, error.message)

    async def _end_cancelled(self, active: ActiveRun) -> None:
        """End a run whose stream is closed, after an update of its copy."""
        session = active.session
        key = SessionKey("", session.app_name, session.user_id, session.session_id)
        active.abort.set()
        if not session.realm and self._running.get(session.pk) is active:
            await self.catch_up(key, {}, CANCEL_S)
        await self.finish(active, Status.CANCELLED)
        if not session.realm:
            self._tasks.start(self._reread_later(key))

    async def _reread_later(self, key: SessionKey) -> None:
        await asyncio.sleep(REREAD_DELAY_S)
        await self.catch_up(key, {}, CATCH_UP_S)

    async def _end_failed_run(self, active: ActiveRun, failure: Failure) -> None:
        if active.abort.is_set():
            await self.finish(active, Status.CANCELLED)
        else:
            await self.finish(active, Status.FAILED, failure)


class _Recorder:
    """Stores a run's streamed events, and notifies its listener.

    Attributes:
        arrival_times: times of the stored events, by their ids.
    """

    def __init__(
        self,
        runs: RemoteRuns,
        copies: SessionCopies,
        active: ActiveRun,
        key: SessionKey,
        on_event: EventListener,
    ) -> None:
        self.key = key
        self.arrival_times: dict[str, float] = {}
        self._reported_failure: ReportedFailure | None = None
        self._event_failure: ReportedFailure | None = None
        self._runs = runs
        self._copies = copies
        self._live = active
        self._tell = on_event

    @property
    def failure(self) -> ReportedFailure | None:
        """The last error in the stream, or that of its last event."""
        return self._reported_failure or self._event_failure

    async def take(self, item: RemoteEvent | ReportedFailure | None) -> None:
        """Process the content of a frame."""
        if isinstance(item, ReportedFailure):
            self._reported_failure = item
        elif isinstance(item, RemoteEvent):
            if item.is_partial:
                publish_chunks(self._live, item.wire)
            else:
                await self._store_event(item)
                self._event_failure = self._copies.dialect.find_failure(item)
            self._tell(item)

    async def _store_event(self, event: RemoteEvent) -> None:
        if not self.arrival_times:  # the stream lacks the user's message, which precedes the first event
            await self._copies.catch_up(self.key)
        try:
            appended = await self._copies.append(self.key, event)
            seq = appended.seq
        except DuplicateEvent:
            seq = await units_of_work.read(_find_seq, self._live.session.pk, event.id)
        self.arrival_times[event.id] = event.wire["timestamp"]
        self._runs.note_stored(
            self._live.session.pk,
            seq,
            event_id=event.id,
            author=event.wire.get("author") or "",
            branch=event.wire.get("branch") or "",
            invocation_id=event.wire.get("invocationId") or "",
        )


def publish_chunks(active: ActiveRun, event: Mapping[str, Any]) -> None:
    """Publish the texts of a partial event to the readers of a run."""
    for part in events.content_parts(event):
        if isinstance(text := part.get("text"), str) and text:
            active.frames.publish(
                "chunk",
                author=event.get("author") or "",
                branch=event.get("branch") or "",
                invocation_id=event.get("invocationId") or "",
                event_id=event["id"],
                text=text,
                thought=bool(part.get("thought")),
            )


async def _sse_frames(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str]]:
    """Yield name and data of each server-sent event; comments are skipped."""
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


LARGE_FRAME = 100_000
"""Characters of a frame that is parsed in a thread."""


async def read_frame(copies: SessionCopies, name: str, data: str) -> RemoteEvent | ReportedFailure | None:
    """Return the event or failure in a frame; None for an empty one.

    Raises:
        UpstreamFailed: no ADK server sends this frame.
    """
    try:
        if len(data) < LARGE_FRAME:
            return copies.dialect.parse_frame(name, data)
        return await asyncio.to_thread(copies.dialect.parse_frame, name, data)
    except ValueError as error:
        raise copies.malformed_error(ValueError(f"a frame cannot be parsed: {error}")) from error


def _find_seq(session_pk: int, event_id: str) -> int:
    return Event.objects.filter(session_id=session_pk, event_id=event_id).values_list("seq", flat=True).get()
