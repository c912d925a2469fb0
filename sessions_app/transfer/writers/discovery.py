"""Discovery of importable data in agents' folders: sessions and artifacts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sessions_app.agents.folder import AgentsFolder
from sessions_app.transfer.readers.artifact_files import artifacts_fingerprint
from sessions_app.transfer.readers.databases import SQLITE_MAGIC, file_fingerprint, read_head
from sessions_app.transfer.readers.detection import ARTIFACTS_FOLDER, LOCAL_FOLDER, SESSION_FILE


@dataclass(frozen=True, slots=True)
class AgentData:
    """Importable data of an agent.

    Attributes:
        what: enumeration of the kinds of data.
        stores: the fingerprint of each location.
    """

    app_name: str
    location: str
    what: str
    stores: dict[str, str]


def find_all_agent_data(folder: AgentsFolder) -> list[AgentData]:
    """Return the data of all agents that have any."""
    candidates = (find_agent_data(name, folder.folder_of(name)) for name in folder.names())
    return [data for data in candidates if data.stores]


def find_agent_data(app_name: str, folder: Path) -> AgentData:
    """Return the data of one agent."""
    sessions, artifacts = folder / LOCAL_FOLDER / SESSION_FILE, folder / LOCAL_FOLDER / ARTIFACTS_FOLDER
    fingerprints = {
        "sessions": (sessions, _sqlite_fingerprint(sessions)),
        "artifacts": (artifacts, artifacts_fingerprint(artifacts)),
    }
    stores = {what: store for what, store in fingerprints.items() if store[1]}
    return AgentData(
        app_name,
        str(folder.resolve()),
        " and ".join(stores),
        {str(path.resolve()): fingerprint for path, fingerprint in stores.values()},
    )


def _sqlite_fingerprint(path: Path) -> str:
    try:
        return file_fingerprint(path) if read_head(path).startswith(SQLITE_MAGIC) else ""
    except OSError:
        return ""
