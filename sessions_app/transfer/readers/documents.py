"""Readers of session JSON (of `adk web` and ADK's REST API) and of DevUI's own export."""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from sessions_app import scopes
from sessions_app.errors import BadInput
from sessions_app.events.timestamps import parse_timestamp
from sessions_app.transfer.readers.databases import file_fingerprint
from sessions_app.transfer.readers.normalization import normalize_event, removed_keys
from sessions_app.transfer.readers.records import (
    Format,
    Owner,
    SharedState,
    SourceFilter,
    StoredEvent,
    StoredSession,
    StoredState,
    UnreadableRow,
)

EXPORT_KIND = "devui.sessions"
EXPORT_VERSION = 1


class SessionDocument:
    """File with one session or a list of sessions as ADK's REST API returns them, read at once.

    Attributes:
        is_empty: the file has no sessions at all.
    """

    format = Format.JSON

    def __init__(self, path: Path, choice: SourceFilter, *, may_be_empty: bool = False) -> None:
        """Read the file.

        Raises:
            BadInput: the file is no JSON, or has no session and `may_be_empty` is false.
        """
        self.location = str(path)
        self.remarks: list[str] = []
        self._path = path
        document = _load_json(path)
        sessions = document if isinstance(document, list) else [document]
        self._sessions = [_fold_names(each) for each in sessions if _is_session(each)]
        self.is_empty = not self._sessions
        if self.is_empty and not may_be_empty:
            raise BadInput(
                f"{str(path)!r} is JSON but holds no session.",
                hint="A session has `appName`, `userId`, `id` and `events`, as adk web exports it.",
            )
        self._sessions = [each for each in self._sessions if choice.takes(each["appname"], each["userid"])]

    def fingerprint(self) -> str:
        """Return the file's time and size."""
        return file_fingerprint(self._path)

    def sessions(self) -> Iterator[StoredSession]:
        """Yield the sessions. A session without a time gets that of its last event."""
        for each in self._sessions:
            times = [event.wire["timestamp"] for event in _events_of(each) if isinstance(event, StoredEvent)]
            updated = _time(each.get("lastupdatetime"), max(times, default=0.0))
            yield StoredSession(_owner(each), min([updated, *times]), updated)

    def states(self) -> Iterator[StoredState]:
        """Yield the session scope of each merged state."""
        for each in self._sessions:
            if isinstance(each.get("state"), dict):
                yield StoredState(_owner(each), scopes.split_delta(each["state"]).session)

    def shared(self) -> Iterator[SharedState]:
        """Yield the app and user scopes of the merged states, taken from the newest sessions."""
        apps: dict[str, SharedState] = {}
        users: dict[tuple[str, str], SharedState] = {}
        for each in sorted(self._sessions, key=lambda each: _time(each.get("lastupdatetime"), 0.0)):
            app_name, user_id, _ = _owner(each)
            scoped = scopes.split_delta(each.get("state") or {})
            updated = _time(each.get("lastupdatetime"), 0.0)
            if scoped.app:
                apps[app_name] = SharedState(app_name, None, scoped.app, updated)
            if scoped.user:
                users[app_name, user_id] = SharedState(app_name, user_id, scoped.user, updated)
        yield from chain(apps.values(), users.values())

    def count_events(self) -> int | None:
        """Return how many events there are."""
        return sum(len(each.get("events") or []) for each in self._sessions)

    def events(self, only: Collection[Owner] | None = None) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield the events of all sessions merged by time."""
        sessions = [each for each in self._sessions if only is None or _owner(each) in only]
        queues = [list(_events_of(each)) for each in sessions]
        yield from merge_by_time(queues)

    def close(self) -> None:
        """Do nothing: no file is open."""


class SessionPayload(SessionDocument):
    """Session in a request body, as ADK's REST API returns it."""

    def __init__(self, session: dict[str, Any], location: str) -> None:
        """Read the session. `location` names its origin."""
        self.location = location
        self.remarks: list[str] = []
        self._sessions = [_fold_names(session)]
        self.is_empty = False

    def fingerprint(self) -> str:
        """Return "": a request body is read once."""
        return ""


def session_events(session: dict[str, Any]) -> Iterator[StoredEvent | UnreadableRow]:
    """Yield the events of a session in ADK's JSON, in snake case or camel case."""
    return _events_of({"appname": "", "userid": "", "id": "", **_fold_names(session)})


def merge_by_time(queues: list[list[StoredEvent | UnreadableRow]]) -> Iterator[StoredEvent | UnreadableRow]:
    """Merge the events of several sessions by time. The order within a session does not change."""

    def clocked(
        place: int, queue: list[StoredEvent | UnreadableRow]
    ) -> Iterator[tuple[float, int, StoredEvent | UnreadableRow]]:
        now = float("-inf")
        for item in queue:
            if isinstance(item, StoredEvent):
                now = max(now, item.wire["timestamp"])
            yield now, place, item

    merged = heapq.merge(*(clocked(*each) for each in enumerate(queues)), key=lambda entry: entry[:2])
    yield from (item for _, _, item in merged)


class ExportDocument:
    """DevUI's own export in JSON Lines, events in order of time. Read line by line."""

    format = Format.DEVUI

    def __init__(self, path: Path, choice: SourceFilter) -> None:
        """Check the header.

        Raises:
            BadInput: the file has another version of the format.
        """
        self.location = str(path)
        self.remarks: list[str] = []
        self._path = path
        self._choice = choice
        with path.open(encoding="utf-8") as file:
            version = json.loads(file.readline()).get("version")
        if version != EXPORT_VERSION:
            raise BadInput(
                f"{str(path)!r} is a DevUI export of version {version}; this DevUI reads {EXPORT_VERSION}.",
                hint="Update DevUI.",
            )

    def fingerprint(self) -> str:
        """Return the file's time and size."""
        return file_fingerprint(self._path)

    def sessions(self) -> Iterator[StoredSession | UnreadableRow]:
        """Yield the sessions."""
        for owner, record in self._records("session"):
            yield StoredSession(
                owner,
                record["created_at"],
                record["updated_at"],
                record.get("title", ""),
                tuple(map(str, record.get("tags", ()))),
            )

    def states(self) -> Iterator[StoredState | UnreadableRow]:
        """Yield the sessions' own state."""
        for owner, record in self._records("session"):
            yield StoredState(owner, record["state"], record.get("seeds") or {})

    def shared(self) -> Iterator[SharedState | UnreadableRow]:
        """Yield the state of apps and users."""
        for kind in ("app", "user"):
            for owner, record in self._records(kind):
                user = owner.user_id if kind == "user" else None
                yield SharedState(
                    owner.app_name, user, record["state"], record["updated_at"], record.get("seeds") or {}
                )

    def count_events(self) -> int | None:
        """Return None: counting would read the whole file."""
        return None

    def events(self, only: Collection[Owner] | None = None) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield the events in the order of the file, which is by time."""
        for owner, record in self._records("event"):
            if only is None or owner in only:
                yield StoredEvent(owner, record["event"], removed=frozenset(record.get("removed") or ()))

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _records(self, kind: str) -> Iterator[tuple[Owner, dict[str, Any]]]:
        with self._path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    record = json.loads(line)
                except ValueError as error:
                    raise BadInput(
                        f"Line {number} of {self.location!r} is no JSON: {error}.",
                        hint="The file is damaged.",
                    ) from error
                owner = Owner(record.get("app", ""), record.get("user", ""), record.get("session", ""))
                if record.get("kind") == kind and (
                    (kind == "app" and self._choice.app_name in (None, owner.app_name))
                    or self._choice.takes(owner.app_name, owner.user_id)
                ):
                    yield owner, record


def is_export(path: Path) -> bool:
    """Tell by the first line whether a file is DevUI's own export."""
    with path.open("rb") as file:
        try:
            header = json.loads(file.readline(1000))
        except (ValueError, RecursionError):
            return False
    return isinstance(header, dict) and header.get("kind") == EXPORT_KIND


def _load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{str(path)!r} is neither a database nor JSON: {error}.",
            hint="Name a store or a session's JSON.",
        ) from error
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be read: {error.strerror}.", hint="Check the file.") from error


def _is_session(value: Any) -> bool:
    folded = _fold_names(value) if isinstance(value, dict) else {}
    has_names = all(isinstance(folded.get(name), str) for name in ("appname", "userid", "id"))
    return has_names and isinstance(folded.get("events"), list | None)


def _fold_names(session: dict[str, Any]) -> dict[str, Any]:
    return {str(key).replace("_", "").lower(): value for key, value in session.items()}


def _events_of(session: dict[str, Any]) -> Iterator[StoredEvent | UnreadableRow]:
    owner = _owner(session)
    time = _time(session.get("createtime"), 0.0)
    for number, raw in enumerate(session.get("events") or [], 1):
        if not isinstance(raw, dict):
            yield UnreadableRow(
                f"event {number} of {owner}", f"a {type(raw).__name__} stands where an event should"
            )
            continue
        wire, changes = normalize_event(raw)
        if "timestamp" not in wire:
            fallback = _time(session.get("lastupdatetime"), time)
            wire["timestamp"] = time or fallback
            changes = (*changes, "timestamp: missing, taken from what comes before")
        time = wire["timestamp"]
        if not wire.get("id"):
            wire["id"] = f"event-{number}"
            changes = (*changes, "id: missing, numbered")
        yield StoredEvent(owner, wire, changes, removed=removed_keys(wire))


def _owner(session: dict[str, Any]) -> Owner:
    return Owner(session["appname"], session["userid"], session["id"])


def _time(value: Any, fallback: float) -> float:
    try:
        return parse_timestamp(value) or fallback
    except ValueError:
        return fallback
