"""Importer of DevUI's own export: JSON Lines, with events in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sessions_app.store.errors import BadInput
from sessions_app.store.text_input import decode_start, detect_encoding, parse_json
from sessions_app.transfer.readers.databases import file_fingerprint, read_head
from sessions_app.transfer.readers.importer import Importer
from sessions_app.transfer.readers.records import (
    Owner,
    SharedState,
    Source,
    SourceFilter,
    StoredEvent,
    StoredJudgement,
    StoredSession,
    StoredState,
    UnreadableRow,
)

EXPORT_KIND = "devui.sessions"
EXPORT_VERSION = 1


class ExportImporter(Importer):
    """Importer of an export."""

    def matches_file(self, path: Path, head: bytes) -> bool:
        """Tell by the first line whether the file is an export."""
        try:
            header = parse_json(decode_start(head).partition("\n")[0])
        except (ValueError, RecursionError):
            return False
        return isinstance(header, dict) and header.get("kind") == EXPORT_KIND

    def open_file(self, path: Path, source_filter: SourceFilter) -> ExportDocument:
        """Open the export."""
        return ExportDocument(path, source_filter, self.name)


EXPORT = ExportImporter(name="DevUI export")


class ExportDocument(Source):
    """An export, read line by line."""

    def __init__(self, path: Path, source_filter: SourceFilter, format: str) -> None:
        """Check the header.

        Raises:
            BadInput: the file has another version of the format.
        """
        super().__init__(format, str(path), file_fingerprint(path))
        self._path = path
        self._filter = source_filter
        self._encoding = detect_encoding(read_head(path))
        with path.open(encoding=self._encoding) as file:
            version = parse_json(file.readline()).get("version")
        if version != EXPORT_VERSION:
            raise BadInput(
                f"{str(path)!r} is a DevUI export of version {version}; this DevUI reads {EXPORT_VERSION}.",
                hint="Update DevUI.",
            )

    def sessions(self) -> Iterator[StoredSession | UnreadableRow]:
        """Yield the sessions."""
        for owner, record in self._iter_records("session"):
            yield StoredSession(
                owner,
                record["created_at"],
                record["updated_at"],
                record.get("title", ""),
                tuple(map(str, record.get("tags", ()))),
            )

    def states(self) -> Iterator[StoredState | UnreadableRow]:
        """Yield the sessions' own state."""
        for owner, record in self._iter_records("session"):
            yield StoredState(owner, record["state"], record.get("seeds") or {})

    def shared_states(self) -> Iterator[SharedState | UnreadableRow]:
        """Yield the state of apps and users."""
        for kind in ("app", "user"):
            for owner, record in self._iter_records(kind):
                user = owner.user_id if kind == "user" else None
                yield SharedState(
                    owner.app_name, user, record["state"], record["updated_at"], record.get("seeds") or {}
                )

    def events(self) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield the events in the order of the file, which is by time."""
        for owner, record in self._iter_records("event"):
            removed = frozenset(record.get("removed") or ())
            yield StoredEvent(owner, record["event"], removed=removed, judgement=_read_judgement(record))

    def _iter_records(self, kind: str) -> Iterator[tuple[Owner, dict[str, Any]]]:
        with self._path.open(encoding=self._encoding) as file:
            for number, line in enumerate(file, 1):
                try:
                    record = parse_json(line)
                except (ValueError, RecursionError) as error:
                    raise BadInput(
                        f"Line {number} of {self.location!r} cannot be read: {error}.",
                        hint="The file is damaged.",
                    ) from error
                owner = Owner(record.get("app", ""), record.get("user", ""), record.get("session", ""))
                if record.get("kind") == kind and (
                    (kind == "app" and self._filter.app_name in (None, owner.app_name))
                    or self._filter.matches(owner.app_name, owner.user_id)
                ):
                    yield owner, record


def _read_judgement(record: dict[str, Any]) -> StoredJudgement | None:
    """Return the judgement in the record of an event; None without a complete one."""
    match record.get("judgement"):
        case {
            "verdict": str(verdict),
            "note": str(note),
            "person": str(person),
            "judged_at": float(judged_at),
        }:
            return StoredJudgement(verdict, note, person, judged_at)
    return None
