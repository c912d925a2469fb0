"""Invocations that other programs ran are listed among the runs, without those that have a run themselves."""

import json
from typing import Any

from django.db import migrations, models
from django.db.models import Exists, F, OuterRef

HAS_NO_RUN = models.Q(own_status__gt='')
DURATION = models.Func(F('finished_at') - F('started_at'), template='coalesce(%(expressions)s, 0.0)', output_field=models.FloatField())


BATCH_SIZE = 1_000


def set_own_status(apps: Any, schema_editor: Any) -> None:
    """Set the status of the invocations without a run, outside of realms."""
    runs = apps.get_model('sessions_app', 'Run').objects
    traces = apps.get_model('sessions_app', 'Trace').objects
    known_runs = runs.filter(session=OuterRef('session'), invocation_id=OuterRef('invocation_id'))
    rows = traces.filter(~Exists(known_runs), session__realm='').order_by('pk')
    rows = rows.values_list('pk', 'finished_at', 'stages')
    batch = list(rows[:BATCH_SIZE])
    while batch:
        for pk, finished_at, stages in batch:
            last_stage = (json.loads(stages) or [['']])[-1][0]
            ended = {'failed': 'failed', 'cut off': 'cancelled'}.get(last_stage, 'done')
            traces.filter(pk=pk).update(own_status='running' if finished_at is None else ended)
        batch = list(rows.filter(pk__gt=batch[-1][0])[:BATCH_SIZE])


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0007_run_pauses')]

    operations = [
        migrations.AddField('trace', 'own_status', models.CharField(max_length=16, default='', db_default='', help_text='`Run.Status` of an invocation of another program; empty: it has a run, or is in a realm.')),
        migrations.AddIndex('run', models.Index(fields=['session', 'invocation_id'], name='run_of_invocation')),
        migrations.RunPython(set_own_status, migrations.RunPython.noop),
        migrations.AddIndex('trace', models.Index(fields=['-started_at', '-id'], name='own_trace_newest', condition=HAS_NO_RUN)),
        migrations.AddIndex('trace', models.Index(DURATION, F('id'), name='own_trace_by_duration', condition=HAS_NO_RUN)),
    ]
