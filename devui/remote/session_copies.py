"""Sessions of a remote server and their copies in the store: read there, brought here."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any
from weakref import WeakValueDictionary

from devui.remote import dialects
from devui.remote.dialects import Dialect, RemoteEvent, RemoteSession
from devui.remote.http_client import MAX_SESSION, NotReached, RemoteHttpClient, RemoteResponse
from sessions_app import events, scopes
from sessions_app.agents.remotes import upstream_app_name
from sessions_app.errors import BadInput, NotFound, SessionMissing, UpstreamFailed
from sessions_app.external import mirror_sync, mirrors
from sessions_app.external.mirrors import MirrorState, SourceEvent, SourceSession
from sessions_app.ids import SessionKey, check_ids
from sessions_app.models import ChangeCause
from sessions_app.paths import upstream_path
from sessions_app.sessions.writes import AppendResult
from sessions_app.store import units_of_work

MAX_FOLLOWED = 500
"""Sessions of one list that are brought here because of it; the others come when they are read."""

log = logging.getLogger(__name__)


class SessionCopies:
    """The sessions of one remote server. `place` is what pages call it: its address."""

    def __init__(self, http_client: RemoteHttpClient, dialect: Dialect = dialects.OTHERS) -> None:
        self.dialect = dialect
        self.server_url = http_client.url
        self._http = http_client
        self._locks: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        self._following: set[asyncio.Task[None]] = set()

    async def catch_up(
        self, key: SessionKey, arrival_times: Mapping[str, float] | None = None
    ) -> RemoteSession:
        """Read a session there and bring its copy up to date.

        Args:
            came: times of the events that came by a stream, by their ids; what the session has of them counts.

        Raises:
            SessionMissing: the server has no such session; a copy says so.
            NotReached: the server does not answer.
            BadInput: it refuses.
            UpstreamFailed: it fails, or its answer is no session.
        """
        async with self.lock(key):
            copy = await units_of_work.read(mirrors.read_mirror, key)
            try:
                session = await self._read(key)
            except SessionMissing:
                if copy.revision is not None:
                    await units_of_work.write(
                        mirrors.note_difference, key, f"It is not in {self.server_url} any more."
                    )
                raise
            await self._update_copy(key, copy, session, arrival_times or {})
            return session

    async def copy_created(self, key: SessionKey, answer: Any, seeds: Mapping[str, Any]) -> SessionKey:
        """Make the copy of a session that has just been created there; `answer` is what the server said of it.

        Return its key, with the id that the server gave it.

        Raises:
            UpstreamFailed: it is no session.
        """
        session = self._session(answer)
        key = key._replace(session_id=session.id)
        async with self.lock(key):
            await self._update_copy(
                key, await units_of_work.read(mirrors.read_mirror, key), session, {}, seeds
            )
        return key

    async def append(self, key: SessionKey, event: RemoteEvent) -> AppendResult:
        """Append an event to a copy as it comes by a stream.

        Raises:
            SessionMissing: there is no copy any more.
            DuplicateEvent: it stands here with another body: as the session itself has it.
            BadInput: its ids cannot be stored.
        """
        arrival = await asyncio.to_thread(_to_arrival, event)
        async with self.lock(key):
            return await units_of_work.write(mirrors.append_event, key, arrival, arrival.record.timestamp)

    async def remove(self, key: SessionKey) -> None:
        """Remove the copy of a session that was deleted there."""
        async with self.lock(key):
            await units_of_work.write(mirrors.remove_mirror, key)

    def follow(self, app_name: str, sessions: Iterable[RemoteSession]) -> None:
        """Bring the sessions of a list here that went on since, in the background."""
        task = asyncio.create_task(self._follow(app_name, list(sessions)[:MAX_FOLLOWED]))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def wait_until_followed(self) -> None:
        """Wait until what is followed is here."""
        while self._following:
            await asyncio.wait(self._following)

    async def close(self) -> None:
        """Follow no more."""
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    def lock(self, key: SessionKey) -> asyncio.Lock:
        """Return the lock under which this process writes to a copy."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    async def sessions(self, app_name: str, user_id: str) -> list[RemoteSession]:
        """Return a user's sessions as the server lists them, without their events.

        Raises:
            NotReached: it does not answer.
            BadInput: it refuses.
            UpstreamFailed: it fails, or answers something else.
        """
        answer = await self._http.ask(
            "GET", upstream_path(upstream_app_name(app_name), user_id), max_bytes=MAX_SESSION
        )
        if not answer.is_success:
            raise self.refusal_error(answer)
        listed = await self._parse(answer)
        try:
            return [
                dialects.parse_session({**each, "events": []}) for each in dialects.parse_session_list(listed)
            ]
        except ValueError as error:
            raise self.malformed_error(error) from error

    def refusal_error(self, answer: RemoteResponse) -> BadInput | UpstreamFailed:
        """Return what a server says that refuses, or that fails (5xx)."""
        reply = dialects.error_text(answer.body) or "without a word"
        message = (
            f"Remote server {self._http.address.name!r} ({self.server_url}) answers {answer.status}: {reply}"
        )
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return UpstreamFailed(
                message, hint="Its own log says why. When it is mended, ask again; DevUI itself is well."
            )
        return BadInput(message, hint="It refuses this. Its own log may say more.")

    def malformed_error(self, error: ValueError) -> UpstreamFailed:
        """Return that an answer is none of an ADK server."""
        return UpstreamFailed(
            f"Remote server {self._http.address.name!r} ({self.server_url}) answers what no ADK server does: {error}.",
            hint="Is the address that `--runtime` names the one that was meant?",
        )

    async def _read(self, key: SessionKey) -> RemoteSession:
        path = upstream_path(upstream_app_name(key.app_name), key.user_id, key.session_id)
        answer = await self._http.ask("GET", path, max_bytes=MAX_SESSION)
        if not answer.is_success:
            if is_session_missing(answer):
                raise SessionMissing(
                    f"Session not found: {key.session_id}",
                    hint=f"{self.server_url} has no session of this id.",
                )
            raise self.refusal_error(answer)
        return self._session(await self._parse(answer))

    async def _parse(self, answer: RemoteResponse) -> Any:
        try:
            return await asyncio.to_thread(json.loads, answer.body)
        except (ValueError, RecursionError) as error:
            raise self.malformed_error(ValueError("it is no JSON")) from error

    def _session(self, answer: Any) -> RemoteSession:
        try:
            if not isinstance(answer, dict):
                raise ValueError("a session is an object")
            return dialects.parse_session(answer)
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
        check_ids(key)

        def event(number: int, raw: dict[str, Any]) -> RemoteEvent:
            at = arrival_times.get(dialects.event_id(raw, number), session.updated_at)
            return dialects.parse_event(self.dialect, raw, at, number)

        numbered = list(enumerate(session.events, 1))
        first = [event(*each).wire["timestamp"] for each in numbered[:1]]
        truth = SourceSession(
            key, self.server_url, session.state, session.updated_at or max(first, default=time.time())
        )
        events = mirror_sync.SourceEvents(
            numbered,
            id_of=lambda each: dialects.event_id(each[1], each[0]),
            arrival_of=lambda each: _to_arrival(event(*each)),
            doubtful=frozenset(arrival_times),
        )
        unexplained = _initial_state(session) if seeds is None else seeds
        created_at = min([truth.updated_at, *first])
        await mirror_sync.sync_mirror(truth, copy, events, seeds=unexplained, created_at=created_at)

    async def _follow(self, app_name: str, sessions: list[RemoteSession]) -> None:
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
    """Return the session's own keys that none of its events has written: it was created with them."""
    written_keys: set[str] = set()
    for event in session.events:
        actions = event.get("actions")
        if isinstance(actions, dict):
            delta = actions.get("stateDelta", actions.get("state_delta"))
            written_keys.update(delta if isinstance(delta, dict) else ())
    own = scopes.split_delta(session.state).session
    return {key: value for key, value in own.items() if key not in written_keys}


def is_session_missing(answer: RemoteResponse) -> bool:
    """Tell whether an error means that there is no such session: Go answers 500 for that."""
    return answer.status == NotFound.status or "not found" in dialects.error_text(answer.body).lower()
