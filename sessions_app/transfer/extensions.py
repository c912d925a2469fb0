"""What other rooms know to import from an agent's folder, beside its sessions and artifacts.

Apart from `imports`, which every process would load to fill the list.
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
    """Something of another room that lies beside agents.

    Attributes:
        what: its name in the plural.
        find: returns location → a text that changes with it, for an agent's folder.
        bring: imports what is not here yet, given the agent's name and folder.
    """

    what: str
    find: Callable[[Path], dict[str, str]]
    bring: Callable[[str, Path, ImportReport], None]


folder_importers: list[FolderImporter] = []
"""Filled once, when the apps are ready."""
