"""Index the runs that wait for an answer, and end those that got one: they were left as they were before.

A waiting run was answered when a later run went on with its invocation. Others stay as they are; rows are few, since
most runs never wait. No run is removed.
"""

from django.db import migrations, models
from django.db.models import Exists, OuterRef


def end_answered(apps, schema_editor):
    """Note as done what a later run has gone on with."""
    runs = apps.get_model("sessions_app", "Run").objects.using(schema_editor.connection.alias)
    later = runs.filter(
        session=OuterRef("session"), invocation_id=OuterRef("invocation_id"), created_at__gt=OuterRef("created_at")
    )
    runs.filter(Exists(later), status="waiting").exclude(invocation_id="").update(status="done")


class Migration(migrations.Migration):
    """One partial index, and the state of a few runs."""

    dependencies = [("sessions_app", "0011_what_runs_looked_like_from_inside")]

    operations = [
        migrations.RunPython(end_answered, migrations.RunPython.noop, elidable=True),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(status="waiting"), fields=["session"], name="run_waiting"),
        ),
    ]
