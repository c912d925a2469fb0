"""`DjangoSessionService`: ADK's sessions in DevUI's store."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from typing_extensions import override

from sessions_app.adk import _adk, adk_errors, event_mapping, provenance, session_loading
from sessions_app.adk.prefetch import Prefetcher
from sessions_app.store import models as store
from sessions_app.store import realms, scopes
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.events import EventRecord
from sessions_app.store.ids import check_event_ids, check_ids, is_storable
from sessions_app.store.runs import session_runs
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import active_session, append_groups, writes
from sessions_app.store.sessions.writes import AppendResult, ExpectedSession, UntrackedWrite

R = TypeVar("R")

log = logging.getLogger(__name__)


class DjangoSessionService(BaseSessionService):
    """ADK's session service over DevUI's store, for any `Runner`, inside or outside the server.

    Needs a configured Django: call `devui.setup(url)` first in a plain script. A stale copy of a session is
    refused with `StaleSessionError`; an equal re-delivery of a stored event is a no-op.

    Args:
        realm: isolated namespace to work in; empty: none. A service sees only its own realm.
        prefetcher: loads long sessions for their next turn. For processes that serve the same sessions turn after
            turn; it takes memory, and as much processor time as a second read.
    """

    ends_waiting_runs = True
    """If true, answers and rewinds end the runs that wait for them. Runtimes do this at the end of each run."""

    waits_for_store = False
    """If true, loading and appending wait for a store that cannot be reached or is locked, however long that takes.
    Runtimes wait, as they do to claim and to end a run.
    """

    def __init__(self, realm: str = "", *, prefetcher: Prefetcher | None = None) -> None:
        self.realm = realm
        self.prefetcher = prefetcher
        self._locks: WeakValueDictionary[tuple[int, SessionKey], asyncio.Lock] = WeakValueDictionary()

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; generate an id if it is None or blank.

        Raises:
            AlreadyExistsError: the user already has a session with this id in this app.
            ValueError: an id cannot be stored.
        """
        new_id = (session_id or "").strip() or str(uuid.uuid4())
        with adk_errors.translate_errors(new_id):
            key = check_ids(SessionKey(self.realm, app_name, user_id, new_id))
            return await units_of_work.write(
                lambda: session_loading.new_session(writes.create_session(key, state))
            )

    async def get_or_create_session(
        self, *, app_name: str, user_id: str, ttl_s: float | None = None, state: dict[str, Any] | None = None
    ) -> Session:
        """Return the user's newest session in the app if its last event is at most `ttl_s` seconds old.

        Otherwise create a session with the initial `state`. `ttl_s` defaults to the app's TTL; without either, the
        newest session is returned, however old. Concurrent callers get the same session. Not part of ADK.

        Raises:
            ValueError: an id or the time to live is invalid.
        """
        while True:
            with adk_errors.translate_errors():
                row, _ = await units_of_work.write(
                    active_session.get_or_create, app_name, user_id, ttl_s, state=state, realm=self.realm
                )
            session = await self.get_session(app_name=app_name, user_id=user_id, session_id=row.session_id)
            if session is not None:  # else somebody has deleted it meanwhile
                return session

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with its events and merged state, or None if it does not exist."""
        key = self._session_key(app_name, user_id, session_id)
        if self.prefetcher is None or session_loading.is_partial(config):
            loaded = await self._when_reachable(
                partial(units_of_work.read, session_loading.load_session, key, config)
            )
        else:
            known = self.prefetcher.take(key)
            loaded = await self._when_reachable(
                partial(units_of_work.read, session_loading.load_session, key, None, known)
            )
            if loaded is not None:
                self.prefetcher.start(key, loaded[1])
        return loaded[0] if loaded else None

    @override
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return an app's sessions without their events, oldest update first; one user's or all (None)."""
        return ListSessionsResponse(
            sessions=await units_of_work.read(session_loading.list_sessions, self.realm, app_name, user_id)
        )

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session and its events; user and app state stay. A missing session is not an error."""
        await units_of_work.write(writes.delete_session, self._session_key(app_name, user_id, session_id))

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's state in the app, without the `user:` prefix."""
        if not is_storable(app_name, user_id):
            return {}
        rows = store.UserState.objects.filter(
            owner__realm=self.realm, owner__app_name=app_name, owner__user_id=user_id
        )
        return await units_of_work.read(session_loading.read_state, rows)

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event to the stored session and to the caller's copy; return partial events unchanged.

        Raises:
            SessionNotFoundError: the session does not exist; nothing changes.
            StaleSessionError: the copy is older than the stored session; nothing changes.
            ValueError: the event's id is used by another event, or cannot be stored.
        """
        if event.partial:
            return event
        # A cancelled run must not leave an event stored that the run's own copy does not know of:
        # every later append to that copy, ADK's abort marker first of all, would be refused as stale.
        return await asyncio.shield(asyncio.ensure_future(self._append_locked(session, event)))

    async def _append_locked(self, session: Session, event: Event) -> Event:
        """Append under the session's lock: parallel branches of an invocation share one copy."""
        key = self._session_key(session.app_name, session.user_id, session.id)
        async with self.append_lock(key):
            with adk_errors.translate_errors(key.session_id):
                check_event_ids(event.id, event.invocation_id)
            _stringify_keys(event)
            record = event_record(event)
            with adk_errors.translate_errors(key.session_id):
                expected = _expected_version(session)
                appended = await self._append_when_reachable(key, record, expected, change_cause(event))
            if not appended.duplicate:
                provenance.note_stored(event.invocation_id, record.writes)
                await super().append_event(session=session, event=event)
                session.last_update_time = record.timestamp
                _adk.mark_revision(session, appended.revision)
                self.event_stored(session, event, appended)
                if self.ends_waiting_runs and not self.realm.startswith(realms.ATTEMPT):
                    await _end_waiting_runs(event, appended)
        return event

    async def _append_when_reachable(
        self, key: SessionKey, record: EventRecord, expected: ExpectedSession, cause: store.ChangeCause
    ) -> AppendResult:
        """Append an event. If an earlier try was stored although the connection was lost, return its result."""
        tries = 0

        async def append() -> AppendResult:
            nonlocal tries
            tries += 1
            return await append_groups.append(key, record, expected, cause=cause)

        appended = await self._when_reachable(append)
        if not appended.duplicate or tries == 1:
            return appended
        revision = appended.revision if expected.revision is None else expected.revision + 1
        return replace(appended, duplicate=False, revision=revision)

    async def _when_reachable(self, work: Callable[[], Awaitable[R]]) -> R:
        return await retry.run(work, retry.PASSING) if self.waits_for_store else await work()

    async def note_untracked(self, session: Session, invocation_id: str, keys: list[UntrackedWrite]) -> None:
        """Store the keys that an invocation changed without an event, as the recorder detected. Not part of ADK."""
        key = self._session_key(session.app_name, session.user_id, session.id)
        await units_of_work.write(writes.note_untracked, key, invocation_id, keys)

    def event_stored(self, session: Session, event: Event, appended: AppendResult) -> None:
        """Hook for subclasses: called in the event loop after an event was stored."""

    def append_lock(self, key: SessionKey) -> asyncio.Lock:
        """Return this process's lock for appends to a session. Not part of ADK."""
        owner = (id(asyncio.get_running_loop()), key)
        lock = self._locks.get(owner)
        if lock is None:
            lock = self._locks[owner] = asyncio.Lock()
        return lock

    def _session_key(self, app_name: str, user_id: str, session_id: str) -> SessionKey:
        return SessionKey(self.realm, app_name, user_id, session_id.strip())


async def _end_waiting_runs(event: Event, appended: AppendResult) -> None:
    """End the runs of a session that wait for an answer, if the event answers or rewinds their questions.

    The event is already stored, so errors are logged and do not fail the append.
    """
    pk, rewound = appended.session_pk, event.actions.rewind_before_invocation_id
    try:
        if rewound:
            await units_of_work.write(session_runs.record_rewind, pk, rewound)
        elif event.author == "user" and event.get_function_responses():
            await units_of_work.write(session_runs.finish_answered, pk)
    except Exception:
        log.exception("The waiting runs of session %s could not be ended", pk)


def _stringify_keys(event: Event) -> None:
    """Convert all keys of the delta to text: ADK's base class fails on other keys after the event was stored."""
    delta = event.actions.state_delta
    if not all(isinstance(key, str) for key in delta):
        event.actions.state_delta = {scopes.canonicalize_key(key): value for key, value in delta.items()}


def event_record(event: Event, delta: dict[str, Any] | None = None) -> EventRecord:
    """Return the row of an event with the recorder's notes. `delta` is the delta before ADK trimmed it."""
    notes = provenance.take_notes(event.id, event.invocation_id)
    if notes is None:
        return event_mapping.to_record(event, delta=delta)
    return event_mapping.to_record(
        event, delta=delta, writers=notes.writers, keep_temp=notes.keep_temp, model=notes.model
    )


def change_cause(event: Event) -> store.ChangeCause:
    """Return the cause of an event's state changes: rewind or append."""
    is_rewind = event.actions.rewind_before_invocation_id is not None
    return store.ChangeCause.REWIND if is_rewind else store.ChangeCause.APPEND


def _expected_version(session: Session) -> ExpectedSession:
    last_event_id = session.events[-1].id if session.events else None
    return ExpectedSession(_adk.stored_revision(session), last_event_id)
