"""Custom migration operations."""

from __future__ import annotations

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import AddIndex, CreateModel
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ProjectState
from django.db.models import Index


class CreateModels(Operation):
    """Create several models like `CreateModel` does, in a fraction of the time.

    After each `CreateModel` Django rebuilds the classes of all related models, which takes quadratic time. This
    operation builds them once.
    """

    category = OperationCategory.ADDITION

    def __init__(self, *models: CreateModel) -> None:
        """Take the models in creation order: a model follows those that it refers to."""
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add the models to the state, and their classes, if classes are built already."""
        apps = state.__dict__.pop("apps", None)  # or every addition would rebuild classes
        for model in self.models:
            model.state_forwards(app_label, state)
        if apps is not None:
            apps.render_multiple([state.models[app_label, model.name_lower] for model in self.models])
            state.__dict__["apps"] = apps

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
        """Drop the tables, and the tables of indexes (see `full_text.WordIndex`)."""
        for model in reversed(self.models):
            created = from_state.apps.get_model(app_label, model.name)
            for index in created._meta.indexes:
                schema_editor.remove_index(created, index)
            model.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        """Return what `migrate --plan` shows."""
        return "Create models " + ", ".join(model.name for model in self.models)


class AddIndexes(Operation):
    """Add indexes to a model like `AddIndex` does, in a fraction of the time.

    `AddIndex` rebuilds the classes of all related models for each index, though only a class's options change.
    """

    category = OperationCategory.ADDITION

    def __init__(self, model_name: str, *indexes: Index) -> None:
        """Take the model and its new indexes."""
        self.operations = [AddIndex(model_name, index) for index in indexes]

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add the indexes to the state; classes that are built keep their options."""
        for operation in self.operations:
            options = state.models[app_label, operation.model_name_lower].options
            options["indexes"] = [*options["indexes"], operation.index]

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Create the indexes."""
        for operation in self.operations:
            operation.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Drop the indexes."""
        for operation in reversed(self.operations):
            model = from_state.apps.get_model(app_label, operation.model_name)
            if self.allow_migrate_model(schema_editor.connection.alias, model):
                schema_editor.remove_index(model, operation.index)

    def describe(self) -> str:
        """Return what `migrate --plan` shows."""
        return "Add indexes " + ", ".join(operation.index.name for operation in self.operations)
