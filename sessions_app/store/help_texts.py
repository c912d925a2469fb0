"""Migration operation for help texts of model fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class AlterHelpTexts(Operation):
    """Change help texts. The database is not changed, and models are not rendered as by `AlterField`, which is slow."""

    reduces_to_sql = False

    def __init__(self, texts: Mapping[str, Mapping[str, str]]) -> None:
        """Set the new texts by model and field, in lower case."""
        self.texts = texts

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Replace the fields in the state."""
        for model, texts in self.texts.items():
            fields = state.models[app_label, model].fields
            for name, text in texts.items():
                fields[name] = fields[name].clone()
                fields[name].help_text = text

    def database_forwards(self, *args: Any) -> None:
        """Do nothing."""

    def database_backwards(self, *args: Any) -> None:
        """Do nothing."""

    def describe(self) -> str:
        """Return the description for `migrate --plan`."""
        return f"Change help texts of {', '.join(self.texts)}"
