"""Sessions in the JSON of ADK's REST API and of `adk web`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from sessions_app.store import scopes, text_input
from sessions_app.store.errors import BadInput
from sessions_app.store.events.timestamps import parse_timestamp
from sessions_app.transfer.readers.normalization import normalize_event, removed_keys
from sessions_app.transfer.readers.records import (
    Owner,
    SharedState,
    Source,
    SourceFilter,
    StoredEvent,
    StoredSession,
    StoredState,
    UnreadableRow,
)

NO_SESSION = "it has no texts `appName`, `userId` and `id`, or its `events` are no list"


class SessionDocument(Source):
    """Sessions as ADK's REST API returns them, of a file or a request body.

    Attributes:
        is_empty: there are no sessions at all.
    """

    def __init__(
        self,
        sessions: Iterable[Any],
        location: str,
        source_filter: SourceFilter = SourceFilter(),
        *,
        format: str = "session JSON",
        fingerprint: str = "",
    ) -> None:
        """Take the sessions that the filter matches. `location` names their origin."""
        super().__init__(format, location, fingerprint)
        valid: list[dict[str, Any]] = []
        self._unreadable: list[UnreadableRow] = []
        owners: set[Owner] = set()
        for number, entry in enumerate(sessions, 1):
            if not _is_session(entry):
                self._unreadable.append(UnreadableRow(f"entry {number}", NO_SESSION))
                continue
            session = _fold_names(entry)
            if _session_owner(session) in owners:
                reason = f"an earlier entry has the session {_session_owner(session)}, too"
                self._unreadable.append(UnreadableRow(f"entry {number}", reason))
            else:
                owners.add(_session_owner(session))
                valid.append(session)
        self.is_empty = not valid
        self._sessions = [
            valid_session
            for valid_session in valid
            if source_filter.matches(valid_session["appname"], valid_session["userid"])
        ]

    def sessions(self) -> Iterator[StoredSession]:
        """Yield the sessions. A session without a time gets that of its last event."""
        for session in self._sessions:
            times = [
                event.wire["timestamp"] for event in _iter_events(session) if isinstance(event, StoredEvent)
            ]
            updated = _parse_time(session.get("lastupdatetime"), max(times, default=0.0))
            yield StoredSession(_session_owner(session), min([updated, *times]), updated)

    def states(self) -> Iterator[StoredState]:
        """Yield the session scope of each merged state."""
        for session in self._sessions:
            if isinstance(session.get("state"), dict):
                scoped = scopes.split_delta(session["state"])
                yield StoredState(_session_owner(session), scoped.session, changes=scoped.changes)

    def shared_states(self) -> Iterator[SharedState]:
        """Yield the app and user scopes of the merged states, taken from the newest sessions."""
        apps: dict[str, SharedState] = {}
        users: dict[tuple[str, str], SharedState] = {}
        for session in sorted(
            self._sessions, key=lambda session: _parse_time(session.get("lastupdatetime"), 0.0)
        ):
            app_name, user_id, _ = _session_owner(session)
            scoped = scopes.split_delta(session.get("state") or {})
            updated = _parse_time(session.get("lastupdatetime"), 0.0)
            if scoped.app:
                apps[app_name] = SharedState(app_name, None, scoped.app, updated)
            if scoped.user:
                users[app_name, user_id] = SharedState(app_name, user_id, scoped.user, updated)
        yield from chain(apps.values(), users.values())

    def events(self) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield what is no session or repeats one, then the events of all sessions merged by time."""
        yield from self._unreadable
        yield from merge_by_time([list(_iter_events(session)) for session in self._sessions])


def session_events(session: dict[str, Any]) -> Iterator[StoredEvent | UnreadableRow]:
    """Yield the events of a session in ADK's JSON, in snake case or camel case."""
    return _iter_events({"appname": "", "userid": "", "id": "", **_fold_names(session)})


def merge_by_time(queues: list[list[StoredEvent | UnreadableRow]]) -> Iterator[StoredEvent | UnreadableRow]:
    """Merge the events of several sessions by time. The order within a session does not change."""

    def with_times(
        queue_number: int, queue: list[StoredEvent | UnreadableRow]
    ) -> Iterator[tuple[float, int, StoredEvent | UnreadableRow]]:
        now = float("-inf")
        for item in queue:
            if isinstance(item, StoredEvent):
                now = max(now, item.wire["timestamp"])
            yield now, queue_number, item

    merged = heapq.merge(
        *(with_times(*numbered_queue) for numbered_queue in enumerate(queues)), key=lambda entry: entry[:2]
    )
    yield from (item for _, _, item in merged)


def load_sessions(path: Path) -> list[Any]:
    """Return the values of a JSON file that may be sessions.

    Raises:
        BadInput: the file is not JSON, or cannot be read.
    """
    try:
        document = text_input.parse_json(text_input.read_file(path), max_values=text_input.MAX_FILE_VALUES)
    except text_input.TooManyValues as error:
        raise BadInput(
            f"{str(path)!r} is too large: {error}.", hint="Import its sessions one by one."
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{str(path)!r} is neither a database nor JSON: {error}.",
            hint="Name a store or a session's JSON.",
        ) from error
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be read: {error.strerror}.", hint="Check the file.") from error
    return document if isinstance(document, list) else [document]


def _is_session(value: Any) -> bool:
    folded = _fold_names(value) if isinstance(value, dict) else {}
    has_names = all(isinstance(folded.get(name), str) for name in ("appname", "userid", "id"))
    return has_names and isinstance(folded.get("events"), list | None)


def _fold_names(session: dict[str, Any]) -> dict[str, Any]:
    return {str(key).replace("_", "").lower(): value for key, value in session.items()}


def _iter_events(session: dict[str, Any]) -> Iterator[StoredEvent | UnreadableRow]:
    owner = _session_owner(session)
    time = _parse_time(session.get("createtime"), 0.0)
    for number, raw in enumerate(session.get("events") or [], 1):
        if not isinstance(raw, dict):
            yield UnreadableRow(f"event {number} of {owner}", f"it is a {type(raw).__name__}, not an event")
            continue
        wire, changes = normalize_event(raw)
        if "timestamp" not in wire:
            fallback = _parse_time(session.get("lastupdatetime"), time)
            wire["timestamp"] = time or fallback
            changes = (*changes, "timestamp: missing, set to that of the event before")
        time = wire["timestamp"]
        if not wire.get("id"):
            wire["id"] = f"event-{number}"
            changes = (*changes, "id: missing, numbered")
        yield StoredEvent(owner, wire, changes, removed=removed_keys(wire))


def _session_owner(session: dict[str, Any]) -> Owner:
    return Owner(session["appname"], session["userid"], session["id"])


def _parse_time(value: Any, fallback: float) -> float:
    try:
        return parse_timestamp(value) or fallback
    except ValueError:
        return fallback
