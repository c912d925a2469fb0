"""Base class of importers (`formats`)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any, ClassVar

from sessions_app.plugins import require_texts
from sessions_app.store.errors import BadInput
from sessions_app.transfer.readers.databases import Database, file_fingerprint
from sessions_app.transfer.readers.documents import SessionDocument
from sessions_app.transfer.readers.reader_process import ReaderProcess
from sessions_app.transfer.readers.records import Source, SourceFilter

PLUGIN_READER = "sessions_app.transfer.readers.plugin_reader:dump_sessions"


@dataclass(frozen=True, kw_only=True)
class Importer:
    """Reader of one format of files or databases. A file of sessions needs `matches_file` and `read_sessions` only.

    Attributes:
        name: of the format, in reports.
        is_fallback: asked after all others, because its test is less specific.
        is_bounded: `read_sessions` limits its memory itself. Otherwise it is called in a child process with limits.
    """

    name: str
    is_fallback: bool = False
    is_bounded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the name.

        Raises:
            TypeError: it is not a text.
        """
        require_texts(self, "name")

    def matches_file(self, path: Path, head: bytes) -> bool:
        """Tell whether a file has this format. `head` are its first bytes. Names and suffixes are not trusted."""
        return False

    def read_sessions(self, path: Path) -> Iterable[Any]:
        """Yield the sessions of a file as ADK's REST API returns them.

        Raises:
            BadInput: the file is not valid.
        """
        raise NotImplementedError

    def open_file(self, path: Path, source_filter: SourceFilter) -> Source:
        """Open a file.

        Raises:
            BadInput: the file is not valid, or has no sessions.
            ReadingFailed: the importer failed, or needs more than its process may have.
        """
        fingerprint = file_fingerprint(path)
        with closing(ReaderProcess(PLUGIN_READER)) as process:
            sessions = self.read_sessions(path) if self.is_bounded else process.read(self.name, str(path))
            document = SessionDocument(
                sessions, str(path), source_filter, format=self.name, fingerprint=fingerprint
            )
        if document.is_empty:
            raise BadInput(
                f"{str(path)!r} has the format {self.name!r}, but holds no session.",
                hint="A session has `appName`, `userId`, `id` and `events`, as adk web exports it.",
            )
        return document

    def matches_database(self, database: Database) -> bool:
        """Tell whether a database has this format, by its columns and their values.

        Raises:
            BadInput: the format is of a newer ADK.
        """
        return False

    def open_database(
        self, database: Database, location: str, source_filter: SourceFilter, zone: tzinfo
    ) -> Source:
        """Read from a database. `zone` applies to times without a time zone."""
        raise NotImplementedError
