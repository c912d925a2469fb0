"""Index the model calls that failed: a list of traces with errors looks at these alone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """One more index; no row changes."""

    dependencies = [("sessions_app", "0017_queued_runs_wait_for_the_next_server")]

    operations = [
        migrations.AddIndex(
            model_name="modelcall",
            index=models.Index(
                condition=models.Q(("error_type__gt", "")),
                fields=["session", "invocation_id"],
                name="call_failed",
            ),
        ),
    ]
