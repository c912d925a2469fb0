"""Index spans by their events with an index of all of them: SQLite does not use a partial one for a given event."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """One index in place of another; no row changes."""

    dependencies = [("sessions_app", "0013_files_and_memory_by_time")]

    operations = [
        migrations.RemoveIndex(model_name="span", name="span_of_event"),
        migrations.AddIndex(model_name="span", index=models.Index(fields=["event_id"], name="span_by_event")),
    ]
