"""Reader of a folder of session files. Formats are detected by content, not by name.

All session JSON in the folder is one source, with the events of all files in order of time, so that state of users and
apps has one history. Only files with pending events are held in memory.
"""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sessions_app.errors import BadInput
from sessions_app.transfer.readers.databases import SQLITE_MAGIC, file_fingerprint, read_head
from sessions_app.transfer.readers.documents import SessionDocument, load_sessions
from sessions_app.transfer.readers.formats import find_importer
from sessions_app.transfer.readers.records import (
    Owner,
    SharedState,
    SourceFilter,
    StoredEvent,
    StoredSession,
    StoredState,
    UnreadableRow,
)

SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
VIRTUAL_ENVIRONMENT = "pyvenv.cfg"


@dataclass(slots=True)
class FolderScan:
    """Files found in a folder and its subfolders.

    Attributes:
        agent_folders: folders of agents, which are imported as a whole.
        stores: databases, and files of formats with importers of their own.
        documents: other files that start like JSON.
        others: number of other files.
    """

    agent_folders: list[Path] = field(default_factory=list)
    stores: list[Path] = field(default_factory=list)
    documents: list[Path] = field(default_factory=list)
    others: int = 0

    def fingerprint(self) -> str:
        """Return a text that changes when a file is added, changed or removed, agents' folders aside."""
        stamps = "\n".join(f"{path} {file_fingerprint(path)}" for path in (*self.stores, *self.documents))
        return hashlib.sha256(stamps.encode("utf-8", "surrogateescape")).hexdigest()


def scan_folder(root: Path, is_agent_folder: Callable[[Path], bool]) -> FolderScan:
    """Classify all files under a folder by their first bytes. Links and hidden folders are skipped."""
    scan = FolderScan()
    for name, folders, files in os.walk(root):
        folder = Path(name)
        if VIRTUAL_ENVIRONMENT in files:
            folders.clear()
            continue
        if folder != root and is_agent_folder(folder):
            scan.agent_folders.append(folder)
            folders.clear()
            continue
        folders[:] = sorted(
            each for each in folders if not each.startswith(".") and each not in SKIPPED_FOLDERS
        )
        for each in sorted(files):
            _classify(folder / each, scan)
    return scan


def _classify(path: Path, scan: FolderScan) -> None:
    try:
        head = read_head(path) if path.is_file() and not path.is_symlink() else b""
    except OSError:
        scan.documents.append(path)  # reported when it is opened
        return
    importer, _ = find_importer(lambda each: each.matches_file(path, head)) if head else (None, [])
    if head.startswith(SQLITE_MAGIC) or (importer and not importer.is_fallback):
        scan.stores.append(path)
    elif importer:
        scan.documents.append(path)
    else:
        scan.others += 1


@dataclass(frozen=True, slots=True)
class _FileSession:
    """Session in one of the files.

    Attributes:
        first: timestamp of its first event.
    """

    path: Path
    session: StoredSession
    first: float
    events: int


class SessionFolder:
    """All session JSON in a folder as one source.

    Attributes:
        unread: `.json` files that are invalid.
        without_sessions: other files that start like JSON but have no session.
    """

    format = "a folder"

    def __init__(self, root: Path, scan: FolderScan, source_filter: SourceFilter) -> None:
        """Read every file once and list its sessions."""
        self.location = str(root.resolve())
        self.remarks: list[str] = []
        self.unread: list[UnreadableRow] = []
        self.without_sessions: list[Path] = []
        self._root = root
        self._scan = scan
        self._filter = source_filter
        self._file_sessions: dict[Owner, _FileSession] = {}
        self._last_in: dict[Path, Owner] = {}
        self._shared: dict[tuple[str, str | None], SharedState] = {}
        for path in scan.documents:
            self._look_at(path)

    @property
    def holds_any(self) -> bool:
        """Return whether any file has a session."""
        return len(self.without_sessions) + len(self.unread) < len(self._scan.documents)

    def fingerprint(self) -> str:
        """Return the fingerprint of the folder's files."""
        return self._scan.fingerprint()

    def relative_name(self, path: Path) -> str:
        """Return a file's path relative to the folder."""
        return str(path.relative_to(self._root))

    def sessions(self) -> Iterator[StoredSession | UnreadableRow]:
        """Yield the sessions with the names of their files."""
        yield from self.unread
        for file_session in self._file_sessions.values():
            yield replace(file_session.session, part=self.relative_name(file_session.path))

    def states(self) -> Iterator[StoredState | UnreadableRow]:
        """Yield the session scope of each merged state."""
        for path in dict.fromkeys(each.path for each in self._file_sessions.values()):
            for state in self._open(path).states():
                if self._file_sessions[state.owner].path == path:
                    yield state

    def shared_states(self) -> Iterator[SharedState | UnreadableRow]:
        """Yield the app and user scopes of the merged states, taken from the newest sessions."""
        yield from self._shared.values()

    def count_events(self) -> int | None:
        """Return how many events there are."""
        return sum(file_session.events for file_session in self._file_sessions.values())

    def events(self, only: Collection[Owner] | None = None) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield the events in the order of time; each session's own events in the order they were appended."""
        owners = [owner for owner in self._file_sessions if only is None or owner in only]
        owners.sort(key=lambda owner: self._file_sessions[owner].first)
        self._last_in = {self._file_sessions[owner].path: owner for owner in owners}
        opened: dict[Path, SessionDocument] = {}
        waiting, running = iter(owners), list[tuple[float, int, StoredEvent | UnreadableRow, Any]]()
        coming = next(waiting, None)
        number = 0
        while running or coming:
            if coming and (not running or self._file_sessions[coming].first <= running[0][0]):
                number += 1
                _push_next(running, number, float("-inf"), self._events_of(coming, opened))
                coming = next(waiting, None)
                continue
            now, place, item, rest = heapq.heappop(running)
            yield item
            _push_next(running, place, now, rest)

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _look_at(self, path: Path) -> None:
        try:
            document = self._open(path)
        except BadInput as error:
            if path.suffix.lower() == ".json":
                self.unread.append(UnreadableRow(self.relative_name(path), error.message))
            else:
                self.without_sessions.append(path)
            return
        if document.is_empty:
            self.without_sessions.append(path)
            return
        for shared in document.shared_states():
            newest = self._shared.get((shared.app_name, shared.user_id))
            if newest is None or newest.updated_at <= shared.updated_at:
                self._shared[shared.app_name, shared.user_id] = shared
        for session in document.sessions():
            self._add_session(path, document, session)

    def _add_session(self, path: Path, document: SessionDocument, session: StoredSession) -> None:
        """Add a session. Of several files with the same session, the longest and newest wins."""
        times = [
            event.wire["timestamp"]
            for event in document.events({session.owner})
            if isinstance(event, StoredEvent)
        ]
        file_session = _FileSession(path, session, times[0] if times else float("-inf"), len(times))
        duplicate = self._file_sessions.get(session.owner)
        if duplicate is None:
            self._file_sessions[session.owner] = file_session
            return
        older, newer = sorted(
            (duplicate, file_session), key=lambda each: (each.events, each.session.updated_at)
        )
        self._file_sessions[session.owner] = newer
        self.remarks.append(
            f"{self.relative_name(older.path)}: its session {session.owner} is in {self.relative_name(newer.path)} too,"
            " with as many events or more; that one was imported"
        )

    def _events_of(
        self, owner: Owner, opened: dict[Path, SessionDocument]
    ) -> Iterator[StoredEvent | UnreadableRow]:
        """Return a session's events. Its file stays in memory until its last session is read."""
        path = self._file_sessions[owner].path
        document = opened.get(path) or opened.setdefault(path, self._open(path))
        if owner == self._last_in[path]:
            del opened[path]
        return document.events({owner})

    def _open(self, path: Path) -> SessionDocument:
        return SessionDocument(load_sessions(path), str(path), self._filter)


def _push_next(
    running: list[tuple[float, int, StoredEvent | UnreadableRow, Any]],
    place: int,
    now: float,
    items: Iterator[StoredEvent | UnreadableRow],
) -> None:
    """Push a session's next event, with a time no earlier than that of its predecessor."""
    item = next(items, None)
    if item is None:
        return
    if isinstance(item, StoredEvent):
        now = max(now, item.wire["timestamp"])
    heapq.heappush(running, (now, place, item, items))
