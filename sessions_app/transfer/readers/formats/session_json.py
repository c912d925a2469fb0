"""Importer of session JSON, as `adk web` and ADK's REST API return it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sessions_app.store.text_input import decode_start
from sessions_app.transfer.readers.documents import load_sessions
from sessions_app.transfer.readers.importer import Importer


class SessionJsonImporter(Importer):
    """Importer of a file with a session or a list of sessions."""

    is_bounded = True

    def matches_file(self, path: Path, head: bytes) -> bool:
        """Tell whether the file starts like JSON."""
        return decode_start(head).lstrip()[:1] in ("{", "[")

    def read_sessions(self, path: Path) -> list[Any]:
        """Return the sessions of the file."""
        return load_sessions(path)


SESSION_JSON = SessionJsonImporter(name="session JSON of adk web", is_fallback=True)
