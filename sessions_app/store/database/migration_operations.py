"""Custom migration operations."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import AddIndex, CreateModel
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ProjectState
from django.db.models import Index


class OperationGroup(Operation):
    """Operations that change the database one after the other. Subclasses change the state of the models at once.

    Django's own operations rebuild the classes of all related models each time, which takes most of a migration's time.
    """

    category = OperationCategory.ADDITION

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Take the operations in their order."""
        self.operations = operations

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Change the database."""
        for operation in self.operations:
            operation.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Undo the changes, the last one first."""
        for operation in reversed(self.operations):
            operation.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        """Return what `migrate --plan` shows."""
        return "; ".join(operation.describe() for operation in self.operations)


class CreateModels(OperationGroup):
    """Create several models like `CreateModel` does."""

    def __init__(self, *models: CreateModel) -> None:
        """Take the models in creation order: a model follows those that it refers to."""
        super().__init__(models)
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add the models to the state, and their classes, if classes are built already."""
        apps = state.__dict__.pop("apps", None)  # or every addition would rebuild classes
        for model in self.models:
            model.state_forwards(app_label, state)
        if apps is not None:
            apps.render_multiple([state.models[app_label, model.name_lower] for model in self.models])
            state.__dict__["apps"] = apps

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Drop the tables of indexes (see `full_text.WordIndex`), then the tables."""
        for model in self.models:
            created = from_state.apps.get_model(app_label, model.name)
            for index in created._meta.indexes:
                schema_editor.remove_index(created, index)
        super().database_backwards(app_label, schema_editor, from_state, to_state)


class AddIndexes(OperationGroup):
    """Add indexes to a model like `AddIndex` does."""

    def __init__(self, model_name: str, *indexes: Index) -> None:
        """Take the model and its new indexes."""
        self.model_name = model_name
        self.indexes = indexes
        super().__init__([AddIndex(model_name, index) for index in indexes])

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add the indexes to the state; a class that is built keeps its options."""
        options = state.models[app_label, self.model_name.lower()].options
        options["indexes"] = [*options["indexes"], *self.indexes]
