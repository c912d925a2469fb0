"""Problems of the state, which name a key. Sessions are checked again, because those that exist have none yet."""

from typing import Any

from django.db import migrations, models
from django.db.models import F


def check_again(apps: Any, schema_editor: Any) -> None:
    """Move the cursor of checked sessions back by one event."""
    sessions = apps.get_model("sessions_app", "AgentSession").objects
    sessions.filter(problems_seq__gte=F("last_seq")).update(
        problems_seq=F("last_seq") - 1, problems_version=F("problems_version") + 1
    )


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0003_sorted_lists')]

    operations = [
        migrations.AddField('sessionproblem', 'scope', models.CharField(max_length=10, default='invocation', db_default='invocation', help_text='A value of `problems.DetectorScope`.')),
        migrations.AddField('sessionproblem', 'key', models.TextField(default='', db_default='', help_text='State key that it is about, with its prefix. The text completes a sentence that begins with it.')),
        migrations.RunPython(check_again, migrations.RunPython.noop),
    ]
