"""Migration operations of our own."""

from __future__ import annotations

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import CreateModel
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ProjectState


class CreateModels(Operation):
    """Create several models, as `CreateModel` creates each, in a fraction of its time.

    After every `CreateModel` Django builds the classes of all models anew that are related to the new one, so the
    time grows with the square of their number. Here they are built once, when all models are known.
    """

    category = OperationCategory.ADDITION

    def __init__(self, *models: CreateModel) -> None:
        """Take the models in the order in which they are created: after those that they point to."""
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add the models to the state."""
        state.__dict__.pop(
            "apps", None
        )  # classes built so far: with them every addition would build them anew
        for model in self.models:
            model.state_forwards(app_label, state)

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Create the tables."""
        for model in self.models:
            model.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Remove the tables, and those that indexes have of their own: see `fulltext.WordIndex`."""
        for model in reversed(self.models):
            created = from_state.apps.get_model(app_label, model.name)
            for index in created._meta.indexes:
                schema_editor.remove_index(created, index)
            model.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        """Return what `migrate --plan` shows."""
        return "Create models " + ", ".join(model.name for model in self.models)
