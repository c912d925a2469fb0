"""Live runs of a remote server's agents: its socket `/run_live`, passed on in both directions and recorded.

What a live run stores is known by its server alone: sound is not kept, what the user says never comes back by the
socket. So the copy is read anew while the run goes on, and not made of what streams.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
from typing_extensions import override
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.http11 import Response

from devui.remote.dialects import Failure, Told
from devui.remote.http_client import CONNECT_S, HEADERS, MOST_FRAME, Answer, Line, NotReached
from devui.remote.runs import ABSENT, CATCH_UP_S, RemoteFailure, RemoteRuns, publish_chunks, read_frame
from devui.remote.session_copies import Copies
from devui.runtime.run_queue import LiveRun
from sessions_app.agents.remotes import upstream_app_name
from sessions_app.errors import BadInput, DevUIError
from sessions_app.ids import SessionKey
from sessions_app.models import Event, Run
from sessions_app.store import units_of_work

LOOK_S = 1.0
"""Seconds between two reads of a session while its run goes on: each reads it whole."""

PING_S = 20.0
"""Seconds of silence after which the server is asked whether it is there, and those that it has to answer."""

CLOSE_S = 1.0
"""Seconds that the server has to agree to the end of a connection."""

SILENCE_S = 10.0
"""Seconds of silence after a client has said all (`{"close": true}`) that end the run: ADK's own server leaves the
socket open when its run is over, and one that does not heed the word would go on for good."""

WENT_WELL = frozenset({1000, 1001, 1005})
"""Codes of a close that is no failure; 1005 stands for none."""

CANCELLED = 1000, "The run was cancelled."
OVER = 1000, "The run is over: the server has said nothing more."

Message = str | bytes


class LiveCall:
    """A live run and its client socket (`sessions_app.runs.runtime_client.RuntimeSocket`)."""

    def __init__(self, line: Line, copies: Copies, runs: RemoteRuns, key: SessionKey, query: str) -> None:
        self.closed: tuple[int, str] | None = None
        self._line = line
        self._copies = copies
        self._runs = runs
        self._key = key
        self._query = query
        self._connection: asyncio.Future[ClientConnection] = asyncio.get_running_loop().create_future()
        self._heard: asyncio.Queue[Message] = asyncio.Queue(maxsize=1)  # who listens slowly slows the server
        self._ended = asyncio.Event()
        self._error: BaseException | None = None
        self._news = asyncio.Event()
        self._seq = 0
        self._said_all = asyncio.Event()
        self._spoke = asyncio.Event()

    @asynccontextmanager
    async def opened(self, run: Run) -> AsyncIterator[LiveCall]:
        """Open the socket when the run's turn has come. Who leaves it ends the run.

        Raises:
            BadInput: the server refuses it, or has none.
            UpstreamFailed: the server fails.
            NotReached: the server does not answer, or leads elsewhere.
        """
        live = self._runs.carry_out(run, self._carry_out)
        ended = asyncio.create_task(live.ended.wait())
        try:
            waited_for: list[asyncio.Future[Any]] = [self._connection, ended]
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            if not self._connection.done():
                raise BadInput(f"Run {run.pk} ended before its turn had come.", hint="Its row says why.")
            self._connection.result()
            yield self
        finally:
            if self._said_all.is_set():
                await self._connection.result().close()
                await asyncio.wait([ended], timeout=CATCH_UP_S)
            ended.cancel()
            await self._runs.cancel(run.pk)

    async def send(self, message: Message) -> None:
        """Send a message. One to a socket that is closed is lost."""
        with suppress(ConnectionClosed):
            await self._connection.result().send(message)
        if _ends(message):
            self._said_all.set()

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what the server sends until it closes the socket.

        Raises:
            NotReached: it broke off.
        """
        ended = asyncio.create_task(self._ended.wait())
        try:
            while not (self._ended.is_set() and self._heard.empty()):
                hearing = asyncio.create_task(self._heard.get())
                try:
                    await asyncio.wait([hearing, ended], return_when=asyncio.FIRST_COMPLETED)
                    if hearing.done() or not self._heard.empty():
                        yield await hearing
                finally:
                    hearing.cancel()
        finally:
            ended.cancel()
        if self.closed is None and isinstance(self._error, DevUIError):
            raise self._error

    async def _carry_out(self, live: LiveRun) -> None:
        """Pass on what the server sends, and read its session meanwhile and at the end.

        Raises:
            RemoteFailure: the agent failed.
            DevUIError: the server refuses, cannot be reached or breaks off.
        """
        try:
            connection = await self._connect()
            reading = asyncio.create_task(self._read_now_and_then(live))
            ending = asyncio.create_task(self._end_in_silence(connection))
            try:
                await self._pass_on(live, connection)
            finally:
                reading.cancel()
                ending.cancel()
                await connection.close()
            await self._read(live)
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._ended.set()

    async def _pass_on(self, live: LiveRun, connection: ClientConnection) -> None:
        failure: Failure | None = None
        self._connection.set_result(connection)
        try:
            while True:
                message = await connection.recv()
                self._spoke.set()
                if isinstance(message, str):
                    told = await read_frame(self._copies, "", message)
                    failure = told if isinstance(told, Failure) else failure
                    if isinstance(told, Told) and told.is_partial:
                        publish_chunks(live, told.wire)
                    else:
                        self._news.set()
                await self._heard.put(message)
        except ConnectionClosed as closed:
            self.closed = self.closed or _code_and_reason(closed)
            if self.closed is None:
                raise NotReached(
                    f"{self._line.url} broke the live connection off.", hint="Its log may say more."
                ) from closed
        if failure is None and self.closed[0] not in WENT_WELL:
            failure = Failure(
                "RemoteError", self.closed[1] or f"The live connection was closed ({self.closed[0]})."
            )
        if failure is not None:
            await self._read(live)
            raise RemoteFailure(failure)

    async def _end_in_silence(self, connection: ClientConnection) -> None:
        """Hang up when the client has said all and the server says nothing more."""
        await self._said_all.wait()
        with suppress(TimeoutError):
            while True:
                self._spoke.clear()
                await asyncio.wait_for(self._spoke.wait(), SILENCE_S)
        self.closed = OVER
        await connection.close()

    async def _connect(self) -> ClientConnection:
        given = parse_qsl(self._query, keep_blank_values=True)
        named = [("app_name", upstream_app_name(self._key.app_name))]
        query = urlencode(named + [(name, value) for name, value in given if name != "app_name"])
        base = self._line.base.replace("http", "ws", 1)
        try:
            return await _Dialled(
                f"{base}/run_live?{query}",
                additional_headers=_authorization(self._line.address.account),
                user_agent_header=HEADERS["User-Agent"],
                compression=None,
                open_timeout=CONNECT_S,
                close_timeout=CLOSE_S,
                ping_interval=PING_S,
                ping_timeout=PING_S,
                max_size=MOST_FRAME,
                proxy=None,
            )
        except InvalidStatus as refusal:
            raise self._refused(refusal.response) from refusal
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
            raise NotReached(
                f"{self._line.url} opens no live connection: {error}.",
                hint="Start it, or correct the address that `--runtime` names.",
            ) from error

    def _refused(self, response: Response) -> DevUIError:
        status = response.status_code
        if status in ABSENT:
            return BadInput(
                f"{self._line.url} has no /run_live ({status}): its ADK has no live runs.",
                hint="Send messages; or run the agent in a folder of this server.",
            )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return self._copies.refusal(Answer(status, httpx.Headers(), response.body or b""))
        if status < HTTPStatus.BAD_REQUEST:
            return self._line.elsewhere(status)
        return BadInput(
            f"{self._line.url} refuses the socket ({status}).",
            hint="Name user_id and session_id in the query; modalities are TEXT, AUDIO or VIDEO.",
        )

    async def _read_now_and_then(self, live: LiveRun) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._read(live)
            await asyncio.sleep(LOOK_S)

    async def _read(self, live: LiveRun) -> None:
        """Bring the copy up to date, and tell who listens what is new in it."""
        await self._runs.catch_up(self._key, {}, CATCH_UP_S)
        for event in await units_of_work.read(_events_after, live.session.pk, self._seq):
            self._seq = event.seq
            self._runs.note_stored(
                live.session.pk,
                event.seq,
                event_id=event.event_id,
                author=event.author,
                branch=event.branch,
                invocation_id=event.invocation_id,
            )

    def _fail(self, error: BaseException) -> None:
        """Let who opens the socket, or listens at it, know why it ended."""
        self._error = error
        if isinstance(error, asyncio.CancelledError):
            self.closed = self.closed or CANCELLED
        if isinstance(error, DevUIError) and not self._connection.done():
            self._connection.set_exception(error)


class _Dialled(connect):
    """A connection to the one address that it is given."""

    @override
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _authorization(account: tuple[str, str] | None) -> dict[str, str]:
    """Return the header of HTTP's basic authentication."""
    if account is None:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(":".join(account).encode()).decode()}


def _code_and_reason(closed: ConnectionClosed) -> tuple[int, str] | None:
    """Return how the server closed a connection; None: it broke off."""
    return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else None


def _ends(message: Message) -> bool:
    """Tell whether a client says by a message of ADK's that it has said all."""
    if isinstance(message, bytes) or '"close"' not in message:
        return False
    try:
        asked: Any = json.loads(message)
    except (ValueError, RecursionError):
        return False
    return isinstance(asked, dict) and asked.get("close") is True


def _events_after(session_pk: int, seq: int) -> list[Event]:
    events = Event.objects.filter(session_id=session_pk, seq__gt=seq).order_by("seq")
    return list(events.only("seq", "event_id", "author", "branch", "invocation_id"))
