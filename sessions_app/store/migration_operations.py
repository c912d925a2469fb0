"""Custom migration operations."""

from __future__ import annotations

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import AddField, AddIndex, CreateModel
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ProjectState


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


class AddColumn(AddField):
    """Add a column without relations. Django's own operation rebuilds the classes of all related models."""

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add the column to the state and to the model's class, if there is one."""
        state.models[app_label, self.model_name_lower].fields[self.name] = self.field
        if "apps" in state.__dict__:
            model = state.apps.get_model(app_label, self.model_name)
            self.field.clone().contribute_to_class(model, self.name)

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Add the column with one statement.

        Django would copy the table on SQLite. Both states share the model's class, which has the column already, so the
        copy would read it from the old table, where SQLite takes its quoted name for a text.
        """
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            BaseDatabaseSchemaEditor.add_field(schema_editor, model, model._meta.get_field(self.name))


class AddIndexOnly(AddIndex):
    """Add an index, without rebuilding classes as Django's own operation does."""

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add the index to the state."""
        options = state.models[app_label, self.model_name_lower].options
        options["indexes"] = [*options.get("indexes", ()), self.index.clone()]
