"""Detection of the sessions and artifacts that `adk web` stores in an agent's folder."""

from __future__ import annotations

from pathlib import Path

from sessions_app.transfer.readers.artifact_files import artifacts_fingerprint
from sessions_app.transfer.readers.databases import SQLITE_MAGIC, file_fingerprint
from sessions_app.transfer.readers.detection import ARTIFACTS_FOLDER, LOCAL_FOLDER, SESSION_FILE


def find_session_store(agent_folder: Path) -> dict[str, str]:
    """Return the location of the session store with its fingerprint, or {} if there is none.

    Only the first bytes of the file are read.
    """
    path = agent_folder / LOCAL_FOLDER / SESSION_FILE
    return {str(path.resolve()): file_fingerprint(path)} if _is_sqlite(path) else {}


def find_artifacts(agent_folder: Path) -> dict[str, str]:
    """Return the location of the artifacts folder with its fingerprint, or {} if there is none."""
    path = agent_folder / LOCAL_FOLDER / ARTIFACTS_FOLDER
    versions = artifacts_fingerprint(path)
    return {str(path.resolve()): versions} if versions else {}


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False
