"""Index the rewinds and compactions among the events: a session's page asks for them, and most events are neither.

What is there is indexed by the database; no row changes. An append of any other event compares its kind, no more.
"""

from django.db import migrations, models

from sessions_app.store.json_sql import IsRewindOrCompaction


class Migration(migrations.Migration):
    """One index more, over few rows."""

    dependencies = [("sessions_app", "0008_rows_of_a_session_by_one_index")]

    operations = [
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(IsRewindOrCompaction("kind", "summary")),
                fields=["session", "seq"],
                name="event_touching",
            ),
        ),
    ]
