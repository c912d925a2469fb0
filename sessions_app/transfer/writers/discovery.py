"""Discovery of importable data in agents' folders: sessions, artifacts, and data of registered importers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sessions_app.agents.folder import AgentsFolder
from sessions_app.transfer.folder_importer import folder_importers
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
    candidates = (find_agent_data(name, folder.app_folder(name)) for name in folder.names())
    return [data for data in candidates if data.stores]


def find_agent_data(app_name: str, folder: Path) -> AgentData:
    """Return the data of one agent."""
    local = folder / LOCAL_FOLDER
    kinds = {
        "sessions": _find_store(local / SESSION_FILE, _sqlite_fingerprint),
        "artifacts": _find_store(local / ARTIFACTS_FOLDER, artifacts_fingerprint),
        **{importer.data: importer.find_sources(folder) for importer in folder_importers},
    }
    kinds = {what: stores for what, stores in kinds.items() if stores}
    stores = {location: fingerprint for stores in kinds.values() for location, fingerprint in stores.items()}
    names = list(kinds)
    what = ", ".join([*names[:-2], " and ".join(names[-2:])])
    return AgentData(app_name, str(folder.resolve()), what, stores)


def _find_store(path: Path, fingerprint_of: Callable[[Path], str]) -> dict[str, str]:
    """Return a location with its fingerprint, or {} if it has no data."""
    fingerprint = fingerprint_of(path)
    return {str(path.resolve()): fingerprint} if fingerprint else {}


def _sqlite_fingerprint(path: Path) -> str:
    try:
        return file_fingerprint(path) if read_head(path).startswith(SQLITE_MAGIC) else ""
    except OSError:
        return ""
