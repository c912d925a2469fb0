"""Index the events that are errors or bring the result of a failed tool, and count both in `error_count`.

What is there is indexed by the database; of the rows only the counts of sessions with such events change.
"""

from django.db import migrations, models
from django.db.models import Count, OuterRef, Subquery

from sessions_app.store.json_sql import CountsAsError


def count_errors(apps, schema_editor):
    """Count the errors of each session that has any anew, in one statement over the new index."""
    events = apps.get_model("sessions_app", "Event").objects.filter(CountsAsError("kind", "summary"))
    sessions = apps.get_model("sessions_app", "AgentSession").objects
    of_session = events.filter(session=OuterRef("pk")).order_by().values("session").annotate(count=Count("pk"))
    sessions.filter(pk__in=events.order_by().values("session")).update(
        error_count=Subquery(of_session.values("count"))
    )


class Migration(migrations.Migration):
    """One index more, over few rows."""

    dependencies = [("sessions_app", "0018_failed_model_calls_are_found_at_once")]

    operations = [
        migrations.AlterField(
            model_name="agentsession",
            name="error_count",
            field=models.IntegerField(
                default=0, help_text="Events that are errors or bring the result of a tool that failed."
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(CountsAsError("kind", "summary")),
                fields=["session", "seq"],
                name="event_error",
            ),
        ),
        migrations.RunPython(count_errors, migrations.RunPython.noop, elidable=True),
    ]
