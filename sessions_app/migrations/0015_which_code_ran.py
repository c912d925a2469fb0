"""Runs say which commit ran, and are listed by time and by what they failed of."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """A column that was never known of earlier runs, and two indexes."""

    dependencies = [("sessions_app", "0014_spans_by_event")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="git_revision",
            field=models.TextField(
                db_default="", default="", help_text="Commit of the agent's folder; + when changed."
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="code_version",
            field=models.CharField(default="", help_text="Hash of the agent's files.", max_length=64),
        ),
        migrations.AddIndex(
            model_name="run", index=models.Index(fields=["-created_at", "-id"], name="run_newest")
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("error_type", ""), _negated=True),
                fields=["error_type", "-created_at", "-id"],
                name="run_by_error",
            ),
        ),
    ]
