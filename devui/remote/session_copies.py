"""Sessions of a remote server and their copies in the store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any
from weakref import WeakValueDictionary

from devui.remote import responses
from devui.remote.dialects import Dialect
from devui.remote.http_client import MAX_SESSION, NotReached, RemoteHttpClient, RemoteResponse
from devui.remote.responses import RemoteEvent, RemoteSession
from sessions_app.agents.remotes import upstream_app_name
from sessions_app.paths import upstream_path
from sessions_app.runs.background import BackgroundTasks
from sessions_app.store import events, mirrors, scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, NotFound, SessionMissing, UpstreamFailed
from sessions_app.store.ids import check_ids
from sessions_app.store.mirrors import MirrorState, SourceEvent, SourceSession
from sessions_app.store.models import ChangeCause
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions.writes import AppendResult
from sessions_app.store.text_input import MAX_FILE_VALUES, TooManyValues, parse_json

MAX_FOLLOWED = 500
"""Most sessions of one list that are copied at once; the others are copied when they are read."""

log = logging.getLogger(__name__)


class SessionCopies:
    """Copies of one remote server's sessions. `server_url` is its address as pages show it."""

    def __init__(self, http_client: RemoteHttpClient) -> None:
        self.dialect = Dialect()
        self.server_url = http_client.url
        self._http = http_client
        self._locks: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        self._following = BackgroundTasks()

    async def catch_up(
        self, key: SessionKey, arrival_times: Mapping[str, float] | None = None
    ) -> RemoteSession:
        """Read a session from the server and update its copy.

        Args:
            arrival_times: times of events received by a stream, by event id; the session's version of them is stored.

        Raises:
            SessionMissing: the server has no such session; the copy records it.
            NotReached: the server does not answer.
            BadInput: the server refuses the request.
            UpstreamFailed: the server fails, or its response is not a session.
        """
        async with self.lock(key):
            copy = await units_of_work.read(mirrors.read_mirror, key)
            try:
                session = await self._fetch_session(key)
            except SessionMissing:
                if copy.revision is not None:
                    await units_of_work.write(
                        mirrors.note_difference, key, f"It no longer exists in {self.server_url}."
                    )
                raise
            await self._update_copy(key, copy, session, arrival_times or {})
            return session

    async def copy_created(self, key: SessionKey, answer: Any, seeds: Mapping[str, Any]) -> SessionKey:
        """Copy a session that has just been created on the server; `answer` is the server's response.

        Return its key, with the id that the server assigned.
        """
        session = self._parse_session(answer)
        key = key._replace(session_id=session.id)
        async with self.lock(key):
            await self._update_copy(
                key, await units_of_work.read(mirrors.read_mirror, key), session, {}, seeds
            )
        return key

    async def append(self, key: SessionKey, event: RemoteEvent) -> AppendResult:
        """Append a streamed event to a copy.

        Raises:
            SessionMissing: the copy was removed.
            DuplicateEvent: the copy has this event with another body, which is the session's own version.
            BadInput: its ids cannot be stored.
        """
        arrival = await asyncio.to_thread(_to_arrival, event)
        async with self.lock(key):
            return await units_of_work.write(mirrors.append_event, key, arrival, arrival.record.timestamp)

    async def remove(self, key: SessionKey) -> None:
        """Remove the copy of a session that was deleted on the server."""
        async with self.lock(key):
            await units_of_work.write(mirrors.remove_mirror, key)

    def follow(self, app_name: str, sessions: Iterable[RemoteSession]) -> None:
        """Update the copies of listed sessions that have changed, in the background."""
        self._following.start(self._follow_sessions(app_name, list(sessions)[:MAX_FOLLOWED]))

    async def wait_until_followed(self) -> None:
        """Wait for the updates that `follow` started."""
        while self._following:
            await asyncio.wait(self._following)

    async def close(self) -> None:
        """Cancel the updates that `follow` started."""
        await self._following.cancel()

    def lock(self, key: SessionKey) -> asyncio.Lock:
        """Return the lock under which this process writes a copy."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    async def sessions(self, app_name: str, user_id: str) -> list[RemoteSession]:
        """Return a user's sessions as the server lists them, without events."""
        answer = await self._http.ask(
            "GET", upstream_path(upstream_app_name(app_name), user_id), max_bytes=MAX_SESSION
        )
        if not answer.is_success:
            raise self.refusal_error(answer)
        listed = await self._parse_body(answer)
        try:
            return responses.parse_session_list(listed)
        except ValueError as error:
            raise self.malformed_error(error) from error

    def refusal_error(self, answer: RemoteResponse) -> BadInput | UpstreamFailed:
        """Return the error for a response that refuses a request, or that failed (5xx)."""
        reply = responses.error_text(answer.body) or "without an explanation"
        message = (
            f"Remote server {self._http.address.name!r} ({self.server_url}) answers {answer.status}: {reply}"
        )
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return UpstreamFailed(
                message,
                hint="The server's log has the cause. Try again when it is fixed; DevUI itself works.",
            )
        return BadInput(message, hint="The server refused the request. Its log may have the cause.")

    def malformed_error(self, error: ValueError) -> UpstreamFailed:
        """Return the error for a response that no ADK server sends."""
        return UpstreamFailed(
            f"Remote server {self._http.address.name!r} ({self.server_url}) sent a response that is not an ADK"
            f" server's: {error}.",
            hint="Check the address in `--runtime`.",
        )

    async def _fetch_session(self, key: SessionKey) -> RemoteSession:
        path = upstream_path(upstream_app_name(key.app_name), key.user_id, key.session_id)
        answer = await self._http.ask("GET", path, max_bytes=MAX_SESSION)
        if not answer.is_success:
            if is_session_missing(answer):
                raise SessionMissing(
                    f"Session not found: {key.session_id}",
                    hint=f"{self.server_url} has no session of this id.",
                )
            raise self.refusal_error(answer)
        return self._parse_session(await self._parse_body(answer))

    async def _parse_body(self, answer: RemoteResponse) -> Any:
        try:
            return await asyncio.to_thread(parse_json, answer.body, max_values=MAX_FILE_VALUES)
        except TooManyValues as error:
            raise self.malformed_error(error) from error
        except (ValueError, RecursionError) as error:
            raise self.malformed_error(ValueError("it is not JSON")) from error

    def _parse_session(self, answer: Any) -> RemoteSession:
        try:
            return responses.parse_session(answer)
        except ValueError as error:
            raise self.malformed_error(error) from error

    async def _update_copy(
        self,
        key: SessionKey,
        copy: MirrorState,
        session: RemoteSession,
        arrival_times: Mapping[str, float],
        seeds: Mapping[str, Any] | None = None,
    ) -> None:
        key = check_ids(key)

        def event(number: int, raw: dict[str, Any]) -> RemoteEvent:
            arrived_at = arrival_times.get(responses.event_id(raw, number), session.updated_at)
            try:
                return self.dialect.parse_event(raw, arrived_at, number)
            except ValueError as error:
                raise self.malformed_error(error) from error

        numbered = list(enumerate(session.events, 1))
        first = [event(*entry).wire["timestamp"] for entry in numbered[:1]]
        truth = SourceSession(
            key, self.server_url, session.state, session.updated_at or max(first, default=time.time())
        )
        events = mirrors.SourceEvents(
            numbered,
            id_of=lambda entry: responses.event_id(entry[1], entry[0]),
            arrival_of=lambda entry: _to_arrival(event(*entry)),
            doubtful=frozenset(arrival_times),
        )
        unexplained = _initial_state(session) if seeds is None else seeds
        created_at = min([truth.updated_at, *first])
        await mirrors.sync_mirror(truth, copy, events, seeds=unexplained, created_at=created_at)

    async def _follow_sessions(self, app_name: str, sessions: list[RemoteSession]) -> None:
        for session in sessions:
            key = SessionKey("", app_name, session.user_id, session.id)
            try:
                if not await units_of_work.read(mirrors.is_current, key, self.server_url, session.updated_at):
                    await self.catch_up(key)
            except NotReached as error:
                log.warning("The sessions of %s are not all here: %s", self.server_url, error.message)
                return
            except Exception as error:
                log.warning(
                    "Session %r of %s could not be brought here: %s", session.id, self.server_url, error
                )


def _to_arrival(event: RemoteEvent) -> SourceEvent:
    is_rewind = event.wire["actions"].get("rewindBeforeInvocationId") is not None
    record = events.build_record(event.wire)
    if event.removed:
        record = events.mark_removed(record, event.removed)
    return SourceEvent(record, ChangeCause.REWIND if is_rewind else ChangeCause.APPEND)


def _initial_state(session: RemoteSession) -> dict[str, Any]:
    """Return the session's own keys that no event has written: it was created with them."""
    written_keys: set[str] = set()
    for event in session.events:
        actions = event.get("actions")
        if isinstance(actions, dict):
            delta = actions.get("stateDelta", actions.get("state_delta"))
            written_keys.update(delta if isinstance(delta, dict) else ())
    session_state = scopes.split_delta(session.state).session
    return {key: value for key, value in session_state.items() if key not in written_keys}


def is_session_missing(answer: RemoteResponse) -> bool:
    """Tell whether an error response means a missing session: Go's server answers 500 for it."""
    return answer.status == NotFound.status or "not found" in responses.error_text(answer.body).lower()
