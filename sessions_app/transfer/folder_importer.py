"""Registry of importers that other apps add for data in an agent's folder, such as eval results.

A module of its own, so that registering an importer does not load the readers and writers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessions_app.transfer.report import ImportReport


@dataclass(frozen=True, slots=True)
class FolderImporter:
    """Importer of one kind of data in an agent's folder.

    Attributes:
        data: name of the data, in the plural.
        find_sources: returns the locations in an agent's folder, each with its fingerprint.
        import_data: imports new data, given the agent's name and folder.
    """

    data: str
    find_sources: Callable[[Path], dict[str, str]]
    import_data: Callable[[str, Path, ImportReport], None]


folder_importers: list[FolderImporter] = []
"""Filled when the apps are ready."""
