"""Index artifacts and memory by time: the lists of both show the newest first. Rows stay as they are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Four indexes."""

    dependencies = [("sessions_app", "0012_runs_that_wait")]

    operations = [
        migrations.AddIndex(
            model_name="artifact",
            index=models.Index(fields=["realm", "-created_at", "-id"], name="artifact_newest"),
        ),
        migrations.AddIndex(
            model_name="artifact",
            index=models.Index(
                fields=["realm", "app_name", "-created_at", "-id"], name="artifact_newest_of_app"
            ),
        ),
        migrations.AddIndex(
            model_name="memoryentry",
            index=models.Index(
                condition=models.Q(removed=False),
                fields=["realm", "-timestamp", "-id"],
                name="memory_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="memoryentry",
            index=models.Index(
                condition=models.Q(removed=False),
                fields=["realm", "app_name", "user_id", "-timestamp", "-id"],
                name="memory_newest_of_user",
            ),
        ),
    ]
