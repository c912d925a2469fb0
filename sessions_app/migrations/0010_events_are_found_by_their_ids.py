"""Let everything be indexed once more, so that events are found by their ids too.

Only the cursors begin anew: what the indexes have stays in them and is found meanwhile.
"""

from django.db import migrations

ANEW = "UPDATE sessions_app_agentsession SET indexed_seq = -1 WHERE indexed_seq > -1"


class Migration(migrations.Migration):
    """One statement; nothing that people or agents wrote changes."""

    dependencies = [("sessions_app", "0009_events_that_touch_others")]

    operations = [migrations.RunSQL(ANEW, migrations.RunSQL.noop)]
