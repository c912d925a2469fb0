"""Discovery of importable data in agents' folders: sessions and artifacts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sessions_app.agents.folder import AgentsFolder
from sessions_app.transfer.readers.artifact_files import artifacts_fingerprint
from sessions_app.transfer.readers.databases import SQLITE_MAGIC, file_fingerprint, read_head
from sessions_app.transfer.readers.detection import ARTIFACTS_FOLDER, LOCAL_FOLDER, SESSION_FILE


@dataclass(frozen=True, slots=True)
class AgentData:
    """Importable data of an agent. `kinds` maps each kind of data to its locations and their fingerprints."""

    app_name: str
    folder: Path
    kinds: dict[str, dict[str, str]]

    @property
    def location(self) -> str:
        """Location for the import."""
        return str(self.folder.resolve())

    @property
    def stores(self) -> dict[str, str]:
        """Fingerprints of all locations."""
        return {location: text for stores in self.kinds.values() for location, text in stores.items()}

    @property
    def what(self) -> str:
        """Enumeration of the kinds of data."""
        *most, last = self.kinds
        return f"{', '.join(most)} and {last}" if most else last


def find_all_agent_data(folder: AgentsFolder) -> list[AgentData]:
    """Return the data of all agents that have any."""
    candidates = (find_agent_data(name, folder.folder_of(name)) for name in folder.names())
    return [data for data in candidates if data.kinds]


def find_agent_data(app_name: str, folder: Path) -> AgentData:
    """Return the data of one agent."""
    local = folder / LOCAL_FOLDER
    kinds = {
        "sessions": _find(local / SESSION_FILE, _sqlite_fingerprint),
        "artifacts": _find(local / ARTIFACTS_FOLDER, artifacts_fingerprint),
    }
    return AgentData(app_name, folder, {what: stores for what, stores in kinds.items() if stores})


def _find(path: Path, fingerprint_of: Callable[[Path], str]) -> dict[str, str]:
    """Return a location with its fingerprint, or {} if it has no data."""
    fingerprint = fingerprint_of(path)
    return {str(path.resolve()): fingerprint} if fingerprint else {}


def _sqlite_fingerprint(path: Path) -> str:
    try:
        return file_fingerprint(path) if read_head(path).startswith(SQLITE_MAGIC) else ""
    except OSError:
        return ""
