"""Keep what tells a process from others of its pid whatever the clock says: the boot and the ticks to its start."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """One more column; rows of processes that run keep their start by the clock."""

    dependencies = [("sessions_app", "0019_failed_tool_results_count_as_errors")]

    operations = [
        migrations.AddField(
            model_name="runtimeprocess",
            name="pid_identity",
            field=models.TextField(
                default="",
                db_default="",
                help_text="Tells a reused pid from this process: see `processes.identity`.",
            ),
        ),
        migrations.AlterField(
            model_name="runtimeprocess",
            name="pid_started_at",
            field=models.FloatField(
                default=0.0,
                help_text="By the clock then; tells a reused pid from this process if nothing else does.",
            ),
        ),
    ]
