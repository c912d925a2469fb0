"""`MirroredSessionService`: an ADK session service whose sessions are copied to DevUI's store."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from contextlib import suppress
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from typing_extensions import override

from sessions_app.adk import event_mapping, provenance, session_loading
from sessions_app.adk.service import DjangoSessionService, change_cause, event_record
from sessions_app.store import mirrors, scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.ids import check_ids
from sessions_app.store.mirrors import MirrorState, SourceEvent, SourceSession
from sessions_app.store.session_key import SessionKey, StorableKey
from sessions_app.store.sessions.writes import UntrackedWrite

log = logging.getLogger(__name__)


class MirroredSessionService(BaseSessionService):
    """Wraps another session service, the source of truth, and copies its sessions to DevUI's store.

    Results are always those of the other service. New sessions, events and deletions are written to the copy after it;
    changes by other processes are copied when a session is read or listed. A failure to write the copy never fails a
    call: it is logged and noted in the copy, and the next read or append retries.

    Args:
        truth: the service that stores the sessions.
        location: its name on pages: its URI without a password.
        copy: the service whose store holds the copies.
    """

    def __init__(
        self, truth: BaseSessionService, location: str, copy: DjangoSessionService | None = None
    ) -> None:
        self.truth = truth
        self.location = location
        self.copy = copy or DjangoSessionService()
        self._behind: set[SessionKey] = set()
        self._update_task: asyncio.Task[None] | None = None

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
        **options: Any,
    ) -> Session:
        """Create a session in the other service, then its copy.

        Raises:
            InputValidationError: the other service does not support an option.
        """
        self._check_options(options)
        session = await self.truth.create_session(
            app_name=app_name, user_id=user_id, state=state, session_id=session_id, **options
        )
        key = self._copy_key(session.app_name, session.user_id, session.id)
        async with self.copy.append_lock(key):
            await self._update_copy(key, await self._find_copy(key), session, state or {})
        return session

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session of the other service, and update its copy."""
        if not session_loading.is_partial(config):
            return await self._get_session(app_name, user_id, session_id)
        part = await self.truth.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id, config=config
        )
        if part is not None and not await self._is_newest(part):
            await self._get_session(app_name, user_id, part.id)
        return part

    @override
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of the other service; update their copies in the background."""
        response = await self.truth.list_sessions(app_name=app_name, user_id=user_id)
        if self._update_task is None or self._update_task.done():
            # An empty context: the task must not keep the request's spans and variables alive.
            self._update_task = asyncio.get_running_loop().create_task(
                self._update_copies(response.sessions), name="devui-mirror", context=contextvars.Context()
            )
        return response

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session in the other service, then its copy."""
        key = self._copy_key(app_name, user_id, session_id)
        async with self.copy.append_lock(key):
            await self.truth.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)
            try:
                await units_of_work.write(mirrors.remove_mirror, key)
            except Exception as error:
                await self._note_failure(key, error)

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's state in the other service."""
        return await self.truth.get_user_state(app_name=app_name, user_id=user_id)

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event in the other service, then to the copy; partial events are not copied."""
        if event.partial:
            return await self.truth.append_event(session, event)
        # A cancelled run must not interrupt between the two writes.
        return await asyncio.shield(asyncio.ensure_future(self._append_event(session, event)))

    async def note_untracked(self, session: Session, invocation_id: str, keys: list[UntrackedWrite]) -> None:
        """Store the keys that an invocation changed without an event, as the recorder detected. Not part of ADK."""
        await self.copy.note_untracked(session, invocation_id, keys)

    @override
    async def flush(self) -> None:
        """Flush the other service."""
        await self.truth.flush()

    async def wait_for_copies(self) -> None:
        """Wait until the copies of the last listed sessions are up to date."""
        if self._update_task is not None:
            await self._update_task

    async def close(self) -> None:
        """Close the other service."""
        if self._update_task is not None:
            self._update_task.cancel()
        if (close := getattr(self.truth, "close", None)) is not None:
            await close()

    async def _append_event(self, session: Session, event: Event) -> Event:
        key = self._copy_key(session.app_name, session.user_id, session.id)
        async with self.copy.append_lock(key):
            delta = dict(event.actions.state_delta)  # ADK takes its `temp:` keys out
            stored = await self.truth.append_event(session, event)
            try:
                if key in self._behind:
                    await self._get_locked(key)
                else:
                    await self._append_copy(key, session, stored, delta)
            except Exception as error:
                await self._note_failure(key, error)
        return stored

    async def _append_copy(
        self, key: SessionKey, session: Session, event: Event, delta: dict[str, Any]
    ) -> None:
        arrival = SourceEvent(event_record(event, delta), change_cause(event))
        appended = await units_of_work.write(mirrors.append_event, key, arrival, session.last_update_time)
        if not appended.duplicate:
            provenance.note_stored(event.invocation_id, arrival.record.writes)
            self.copy.event_stored(session, event, appended)

    async def _get_session(self, app_name: str, user_id: str, session_id: str) -> Session | None:
        session = await self._get_named(self._copy_key(app_name, user_id, session_id))
        if session is not None and session.id != session_id:  # services trim ids, or shorten them
            await self._get_named(self._copy_key(app_name, user_id, session.id))
        return session

    async def _get_named(self, key: SessionKey) -> Session | None:
        async with self.copy.append_lock(key):
            return await self._get_locked(key)

    async def _get_locked(self, key: SessionKey) -> Session | None:
        """Read a session whose lock is held. The copy is read first, so that the truth is at least as new."""
        copy = await self._find_copy(key)
        _, app_name, user_id, session_id = key
        session = await self.truth.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if session is None:
            if copy is not None and copy.revision is not None:
                await self._note_difference(key, f"The session no longer exists in {self.location}.")
        elif session.id == session_id:
            await self._update_copy(key, copy, session, _initial_keys(session))
        return session

    async def _find_copy(self, key: SessionKey) -> MirrorState | None:
        try:
            check_ids(key)
            return await units_of_work.read(mirrors.read_mirror, key)
        except Exception as error:
            await self._note_failure(key, error)
            return None

    async def _update_copy(
        self, key: SessionKey, copy: MirrorState | None, session: Session, seeds: dict[str, Any]
    ) -> None:
        """Update a copy. Errors are noted, never raised."""
        if copy is None:
            return
        try:
            # `_find_copy` has checked the ids
            truth = SourceSession(StorableKey(*key), self.location, session.state, session.last_update_time)
            created_at = min([truth.updated_at, *(event.timestamp for event in session.events[:1])])
            events = mirrors.SourceEvents(
                session.events, id_of=lambda event: event.id, arrival_of=_read_arrival
            )
            await mirrors.sync_mirror(truth, copy, events, seeds=seeds, created_at=created_at)
            self._behind.discard(key)
        except Exception as error:
            await self._note_failure(key, error)

    async def _is_newest(self, session: Session) -> bool:
        key = self._copy_key(session.app_name, session.user_id, session.id)
        try:
            return await units_of_work.read(mirrors.is_current, key, self.location, session.last_update_time)
        except Exception:  # whoever brings it up to date finds out, and tells
            return False

    async def _update_copies(self, sessions: list[Session]) -> None:
        for session in sessions:
            if not await self._is_newest(session):
                try:
                    await self._get_session(session.app_name, session.user_id, session.id)
                except Exception:
                    log.warning(
                        "Session %r of %s could not be read.", session.id, self.location, exc_info=True
                    )

    async def _note_failure(self, key: SessionKey, error: Exception) -> None:
        """Log once that a copy could not be written, and note it for pages."""
        problem = f"The copy could not be written: {type(error).__name__}: {error}"
        if key not in self._behind:
            self._behind.add(key)
            log.warning("Session %r is kept in %s. %s", key.session_id, self.location, problem)
        await self._note_difference(key, problem)

    async def _note_difference(self, key: SessionKey, problem: str) -> None:
        with suppress(Exception):  # where the store itself fails nothing can be noted in it
            await units_of_work.write(mirrors.note_difference, key, problem)

    def _check_options(self, options: dict[str, Any]) -> None:
        try:
            inspect.signature(self.truth.create_session).bind(app_name="", user_id="", **options)
        except TypeError as error:
            raise InputValidationError(f"{type(self.truth).__name__}: {error}.") from error

    def _copy_key(self, app_name: str, user_id: str, session_id: str) -> SessionKey:
        """Return the key of the copy, which has exactly the ids of the truth."""
        return SessionKey("", app_name, user_id, session_id)


def _read_arrival(event: Event) -> SourceEvent:
    return SourceEvent(event_mapping.to_record(event), change_cause(event))


def _initial_keys(session: Session) -> dict[str, Any]:
    """Return the session's own keys that no event has written: its initial state."""
    written_keys = {key for event in session.events for key in event.actions.state_delta}
    own_state = scopes.split_delta(session.state).session
    return {key: value for key, value in own_state.items() if key not in written_keys}
