"""Discovery of importable data in agents' folders: sessions, artifacts, and data of registered importers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sessions_app.agents.folder import AgentsFolder
from sessions_app.transfer.extensions import folder_importers
from sessions_app.transfer.readers.agent_folders import find_artifacts, find_session_store


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
    looked_at = (find_agent_data(name, folder.folder_of(name)) for name in folder.names())
    return [data for data in looked_at if data.kinds]


def find_agent_data(app_name: str, folder: Path) -> AgentData:
    """Return the data of one agent."""
    finders: dict[str, Callable[[Path], dict[str, str]]] = {
        "sessions": find_session_store,
        "artifacts": find_artifacts,
        **{extra.what: extra.find for extra in folder_importers},
    }
    kinds = {what: stores for what, find in finders.items() if (stores := find(folder))}
    return AgentData(app_name, folder, kinds)
