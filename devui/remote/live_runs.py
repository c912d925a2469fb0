"""Live runs of a remote server's agents: its socket `/run_live`, forwarded in both directions and recorded.

Only the server knows which events a live run stores: audio is not stored, and the user's input never returns by the
socket. Therefore the copy is read from the session during the run, and not built from the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlencode

import anyio
import httpx
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Response

from devui.remote.http_client import NotReached, RemoteHttpClient, RemoteResponse
from devui.remote.responses import RemoteEvent, ReportedFailure
from devui.remote.runs import (
    CATCH_UP_S,
    MISSING_PATH_STATUSES,
    RemoteFailure,
    RemoteRuns,
    publish_chunks,
    read_frame,
)
from devui.remote.session_copies import SessionCopies
from devui.runtime.run_queue import ActiveRun
from sessions_app.agents.remotes import upstream_app_name
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.models import Event, Run
from sessions_app.store.session_key import SessionKey
from sessions_app.store.text_input import parse_json

REREAD_S = 1.0
"""Seconds between two reads of a session during its run; each reads the whole session."""

SILENCE_S = 10.0
"""Seconds of silence after the client's last message (`{"close": true}`) that end the run: ADK's server leaves the
socket open after its run, and a server that ignores the message would never end.
"""

NORMAL_CLOSE_CODES = frozenset({1000, 1001, 1005})
"""Close codes that are no failure; 1005 stands for none."""

CANCELLED = 1000, "The run was cancelled."
FINISHED = 1000, "The run is over: the server has sent nothing more."

Message = str | bytes


class LiveRunSocket:
    """A live run and the socket of its client (`sessions_app.runs.runtime_client.RuntimeSocket`)."""

    def __init__(
        self,
        http_client: RemoteHttpClient,
        copies: SessionCopies,
        runs: RemoteRuns,
        key: SessionKey,
        query: str,
    ) -> None:
        self.closed: tuple[int, str] | None = None
        self._http = http_client
        self._copies = copies
        self._runs = runs
        self._key = key
        self._query = query
        self._connection: asyncio.Future[ClientConnection] = asyncio.get_running_loop().create_future()
        # With a buffer of one, a slow reader slows the server down.
        self._incoming, self._messages = anyio.create_memory_object_stream[Message](1)
        self._error: BaseException | None = None
        self._has_news = asyncio.Event()
        self._seq = 0
        self._client_finished = asyncio.Event()
        self._server_active = asyncio.Event()

    @asynccontextmanager
    async def open(self, run: Run) -> AsyncIterator[LiveRunSocket]:
        """Open the socket when the run's turn has come. Leaving the context ends the run.

        Raises:
            BadInput: the server refuses the socket, or has none.
            UpstreamFailed: the server fails.
            NotReached: the server does not answer, or redirects.
        """
        active = self._runs.carry_out(run, self._carry_out)
        ended = asyncio.create_task(active.ended.wait())
        try:
            waited_for: list[asyncio.Future[Any]] = [self._connection, ended]
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            if not self._connection.done():
                raise BadInput(f"Run {run.pk} ended before its turn.", hint="The page of runs shows why.")
            self._connection.result()
            yield self
        finally:
            if self._client_finished.is_set():
                await self._connection.result().close()
                await asyncio.wait([ended], timeout=CATCH_UP_S)
            ended.cancel()
            await self._runs.cancel(run.pk)

    async def send(self, message: Message) -> None:
        """Send a message. A message to a closed socket is dropped."""
        with suppress(ConnectionClosed):
            await self._connection.result().send(message)
        if _is_close_request(message):
            self._client_finished.set()

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the server's messages until the socket is closed.

        Raises:
            NotReached: the connection broke.
        """
        async for message in self._messages:
            yield message
        if self.closed is None and isinstance(self._error, DevUIError):
            raise self._error

    async def _carry_out(self, active: ActiveRun) -> None:
        """Forward the server's messages, and update the copy of its session meanwhile and at the end."""
        try:
            connection = await self._open_upstream()
            reading = asyncio.create_task(self._reread_on_news(active))
            ending = asyncio.create_task(self._end_in_silence(connection))
            try:
                await self._pass_on(active, connection)
            finally:
                reading.cancel()
                ending.cancel()
                await connection.close()
            await self._read_session(active)
        except BaseException as error:
            self._record_failure(error)
            raise
        finally:
            self._incoming.close()

    async def _pass_on(self, active: ActiveRun, connection: ClientConnection) -> None:
        failure: ReportedFailure | None = None
        self._connection.set_result(connection)
        try:
            while True:
                message = await connection.recv()
                self._server_active.set()
                if isinstance(message, str):
                    frame = await read_frame(self._copies, "", message)
                    failure = frame if isinstance(frame, ReportedFailure) else failure
                    if isinstance(frame, RemoteEvent) and frame.is_partial:
                        publish_chunks(active, frame.wire)
                    else:
                        self._has_news.set()
                await self._incoming.send(message)
        except ConnectionClosed as closed:
            self.closed = self.closed or _code_and_reason(closed)
            if self.closed is None:
                raise NotReached(
                    f"{self._http.url} broke the live connection.", hint="Its log may have the cause."
                ) from closed
        if failure is None and self.closed[0] not in NORMAL_CLOSE_CODES:
            failure = ReportedFailure(
                "RemoteError", self.closed[1] or f"The live connection was closed ({self.closed[0]})."
            )
        if failure is not None:
            await self._read_session(active)
            raise RemoteFailure(failure)

    async def _end_in_silence(self, connection: ClientConnection) -> None:
        """Close the connection when the client has finished and the server is silent."""
        await self._client_finished.wait()
        with suppress(TimeoutError):
            while True:
                self._server_active.clear()
                await asyncio.wait_for(self._server_active.wait(), SILENCE_S)
        self.closed = FINISHED
        await connection.close()

    async def _open_upstream(self) -> ClientConnection:
        parameters = parse_qsl(self._query, keep_blank_values=True)
        app_parameter = [("app_name", upstream_app_name(self._key.app_name))]
        query = urlencode(app_parameter + [(name, value) for name, value in parameters if name != "app_name"])
        try:
            return await self._http.open_socket(f"/run_live?{query}")
        except InvalidStatus as refusal:
            raise self._read_refusal(refusal.response) from refusal

    def _read_refusal(self, response: Response) -> DevUIError:
        status = response.status_code
        if status in MISSING_PATH_STATUSES:
            return BadInput(
                f"{self._http.url} has no /run_live ({status}): its ADK has no live runs.",
                hint="Send messages, or run the agent in a folder of this server.",
            )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return self._copies.refusal_error(RemoteResponse(status, httpx.Headers(), response.body or b""))
        if status < HTTPStatus.BAD_REQUEST:
            return self._http.redirect_error(status)
        return BadInput(
            f"{self._http.url} refuses the socket ({status}).",
            hint="Name user_id and session_id in the query; modalities are TEXT, AUDIO or VIDEO.",
        )

    async def _reread_on_news(self, active: ActiveRun) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            await self._read_session(active)
            await asyncio.sleep(REREAD_S)

    async def _read_session(self, active: ActiveRun) -> None:
        """Update the copy, and notify readers of its new events."""
        await self._runs.catch_up(self._key, {}, CATCH_UP_S)
        for event in await units_of_work.read(_events_after, active.session.pk, self._seq):
            self._seq = event.seq
            self._runs.note_stored(
                active.session.pk,
                event.seq,
                event_id=event.event_id,
                author=event.author,
                branch=event.branch,
                invocation_id=event.invocation_id,
            )

    def _record_failure(self, error: BaseException) -> None:
        """Record the error for the caller that opens or reads the socket."""
        self._error = error
        if isinstance(error, asyncio.CancelledError):
            self.closed = self.closed or CANCELLED
        if isinstance(error, DevUIError) and not self._connection.done():
            self._connection.set_exception(error)


def _code_and_reason(closed: ConnectionClosed) -> tuple[int, str] | None:
    """Return the server's close code and reason; None if the connection broke."""
    return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else None


def _is_close_request(message: Message) -> bool:
    """Tell whether a client's message is ADK's request to close."""
    if isinstance(message, bytes) or '"close"' not in message:
        return False
    try:
        request: Any = parse_json(message)
    except (ValueError, RecursionError):
        return False
    return isinstance(request, dict) and request.get("close") is True


def _events_after(session_pk: int, seq: int) -> list[Event]:
    events = Event.objects.filter(session_id=session_pk, seq__gt=seq).order_by("seq")
    return list(events.only("seq", "event_id", "author", "branch", "invocation_id"))
