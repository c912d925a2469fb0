"""Reader of files by importers of installed packages, for a child process: they may need any amount of memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import django


def dump_sessions(importer_name: str, path: str) -> Iterator[str]:
    """Yield the sessions of a file as JSON."""
    django.setup()
    from sessions_app.store import scopes
    from sessions_app.transfer.readers.formats import all_importers

    importer = next(candidate for candidate in all_importers() if candidate.name == importer_name)
    for session in importer.read_sessions(Path(path)):
        yield json.dumps(scopes.to_jsonable(session))
