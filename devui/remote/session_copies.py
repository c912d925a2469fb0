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
from devui.remote.dialects import Dialect, SessionTold, Told
from devui.remote.http_client import MOST_SESSION, Answer, Line, NotReached
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

MOST_FOLLOWED = 500
"""Sessions of one list that are brought here because of it; the others come when they are read."""

log = logging.getLogger(__name__)


class Copies:
    """The sessions of one remote server. `place` is what pages call it: its address."""

    def __init__(self, line: Line, dialect: Dialect = dialects.OTHERS) -> None:
        self.dialect = dialect
        self.place = line.url
        self._line = line
        self._turns: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        self._following: set[asyncio.Task[None]] = set()

    async def catch_up(self, key: SessionKey, came: Mapping[str, float] | None = None) -> SessionTold:
        """Read a session there and bring its copy up to date.

        Args:
            came: times of the events that came by a stream, by their ids; what the session has of them counts.

        Raises:
            SessionMissing: the server has no such session; a copy says so.
            NotReached: the server does not answer.
            BadInput: it refuses.
            UpstreamFailed: it fails, or its answer is no session.
        """
        async with self.turn(key):
            here = await units_of_work.read(mirrors.read_mirror, key)
            try:
                told = await self._read(key)
            except SessionMissing:
                if here.revision is not None:
                    await units_of_work.write(
                        mirrors.note_difference, key, f"It is not in {self.place} any more."
                    )
                raise
            await self._bring(key, here, told, came or {})
            return told

    async def keep(self, key: SessionKey, answer: Any, seeds: Mapping[str, Any]) -> SessionKey:
        """Make the copy of a session that has just been created there; `answer` is what the server said of it.

        Return its key, with the id that the server gave it.

        Raises:
            UpstreamFailed: it is no session.
        """
        told = self._session(answer)
        key = key._replace(session_id=told.id)
        async with self.turn(key):
            await self._bring(key, await units_of_work.read(mirrors.read_mirror, key), told, {}, seeds)
        return key

    async def append(self, key: SessionKey, told: Told) -> AppendResult:
        """Append an event to a copy as it comes by a stream.

        Raises:
            SessionMissing: there is no copy any more.
            DuplicateEvent: it stands here with another body: as the session itself has it.
            BadInput: its ids cannot be stored.
        """
        arrival = await asyncio.to_thread(_arrival, told)
        async with self.turn(key):
            return await units_of_work.write(mirrors.append_event, key, arrival, arrival.record.timestamp)

    async def remove(self, key: SessionKey) -> None:
        """Remove the copy of a session that was deleted there."""
        async with self.turn(key):
            await units_of_work.write(mirrors.remove_mirror, key)

    def follow(self, app_name: str, sessions: Iterable[SessionTold]) -> None:
        """Bring the sessions of a list here that went on since, in the background."""
        task = asyncio.create_task(self._follow(app_name, list(sessions)[:MOST_FOLLOWED]))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def settled(self) -> None:
        """Wait until what is followed is here."""
        while self._following:
            await asyncio.wait(self._following)

    async def close(self) -> None:
        """Follow no more."""
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    def turn(self, key: SessionKey) -> asyncio.Lock:
        """Return the lock under which this process writes to a copy."""
        lock = self._turns.get(key)
        if lock is None:
            lock = self._turns[key] = asyncio.Lock()
        return lock

    async def sessions(self, app_name: str, user_id: str) -> list[SessionTold]:
        """Return a user's sessions as the server lists them, without their events.

        Raises:
            NotReached: it does not answer.
            BadInput: it refuses.
            UpstreamFailed: it fails, or answers something else.
        """
        answer = await self._line.ask(
            "GET", upstream_path(upstream_app_name(app_name), user_id), most=MOST_SESSION
        )
        if not answer.is_success:
            raise self.refusal(answer)
        listed = await self._parsed(answer)
        try:
            return [dialects.events_in({**each, "events": []}) for each in dialects.sessions_in(listed)]
        except ValueError as error:
            raise self.strange(error) from error

    def refusal(self, answer: Answer) -> BadInput | UpstreamFailed:
        """Return what a server says that refuses, or that fails (5xx)."""
        said = dialects.error_text(answer.body) or "without a word"
        told = f"Remote server {self._line.address.name!r} ({self.place}) answers {answer.status}: {said}"
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return UpstreamFailed(
                told, hint="Its own log says why. When it is mended, ask again; DevUI itself is well."
            )
        return BadInput(told, hint="It refuses this. Its own log may say more.")

    def strange(self, error: ValueError) -> UpstreamFailed:
        """Return that an answer is none of an ADK server."""
        return UpstreamFailed(
            f"Remote server {self._line.address.name!r} ({self.place}) answers what no ADK server does: {error}.",
            hint="Is the address that `--runtime` names the one that was meant?",
        )

    async def _read(self, key: SessionKey) -> SessionTold:
        path = upstream_path(upstream_app_name(key.app_name), key.user_id, key.session_id)
        answer = await self._line.ask("GET", path, most=MOST_SESSION)
        if not answer.is_success:
            if says_missing(answer):
                raise SessionMissing(
                    f"Session not found: {key.session_id}", hint=f"{self.place} has no session of this id."
                )
            raise self.refusal(answer)
        return self._session(await self._parsed(answer))

    async def _parsed(self, answer: Answer) -> Any:
        try:
            return await asyncio.to_thread(json.loads, answer.body)
        except (ValueError, RecursionError) as error:
            raise self.strange(ValueError("it is no JSON")) from error

    def _session(self, answer: Any) -> SessionTold:
        try:
            if not isinstance(answer, dict):
                raise ValueError("a session is an object")
            return dialects.events_in(answer)
        except ValueError as error:
            raise self.strange(error) from error

    async def _bring(
        self,
        key: SessionKey,
        here: MirrorState,
        told: SessionTold,
        came: Mapping[str, float],
        seeds: Mapping[str, Any] | None = None,
    ) -> None:
        check_ids(key)

        def event(number: int, raw: dict[str, Any]) -> Told:
            at = came.get(dialects.id_of(raw, number), told.updated_at)
            return dialects.event(self.dialect, raw, at, number)

        numbered = list(enumerate(told.events, 1))
        first = [event(*each).wire["timestamp"] for each in numbered[:1]]
        truth = SourceSession(key, self.place, told.state, told.updated_at or max(first, default=time.time()))
        events = mirror_sync.SourceEvents(
            numbered,
            id_of=lambda each: dialects.id_of(each[1], each[0]),
            arrival_of=lambda each: _arrival(event(*each)),
            doubtful=frozenset(came),
        )
        unexplained = _unexplained(told) if seeds is None else seeds
        created_at = min([truth.updated_at, *first])
        await mirror_sync.sync_mirror(truth, here, events, seeds=unexplained, created_at=created_at)

    async def _follow(self, app_name: str, sessions: list[SessionTold]) -> None:
        for told in sessions:
            key = SessionKey("", app_name, told.user_id, told.id)
            try:
                if not await units_of_work.read(mirrors.is_current, key, self.place, told.updated_at):
                    await self.catch_up(key)
            except NotReached as error:
                log.warning("The sessions of %s are not all here: %s", self.place, error.message)
                return
            except Exception as error:
                log.warning("Session %r of %s could not be brought here: %s", told.id, self.place, error)


def _arrival(told: Told) -> SourceEvent:
    is_rewind = told.wire["actions"].get("rewindBeforeInvocationId") is not None
    record = events.build_record(told.wire)
    if told.removed:
        record = events.mark_removed(record, told.removed)
    return SourceEvent(record, ChangeCause.REWIND if is_rewind else ChangeCause.APPEND)


def _unexplained(told: SessionTold) -> dict[str, Any]:
    """Return the session's own keys that none of its events has written: it was created with them."""
    written: set[str] = set()
    for event in told.events:
        actions = event.get("actions")
        if isinstance(actions, dict):
            delta = actions.get("stateDelta", actions.get("state_delta"))
            written.update(delta if isinstance(delta, dict) else ())
    own = scopes.split_delta(told.state).session
    return {key: value for key, value in own.items() if key not in written}


def says_missing(answer: Answer) -> bool:
    """Tell whether an error means that there is no such session: Go answers 500 for that."""
    return answer.status == NotFound.status or "not found" in dialects.error_text(answer.body).lower()
