"""Tokens of sessions by model and day, summed up for the events that are indexed already."""

import json
import re
from collections import Counter, defaultdict
from itertools import groupby, islice
from operator import itemgetter

import django.db.models.deletion
from django.db import migrations, models

from sessions_app.store.migration_operations import AddColumn, CreateModels

BATCH = 500
DAY_S = 86_400
END_OF_TIME_S = 253_402_300_800
MAX_TOKENS = 2**31 - 1
KINDS = ('prompt', 'output', 'thoughts', 'cached', 'total')
NOT_IN_COLUMNS = re.compile('[\0\ud800-\udfff]')


def usage_of_event(summary, timestamp):
    """Return (model, day, tokens) of the model call that produced an event; None without tokens.

    A copy of the rules of `prices`: later changes of them must not change what this migration does.
    """
    try:
        summary = json.loads(summary)
    except (ValueError, RecursionError):
        return None
    counts = summary.get('tokens') if isinstance(summary, dict) else None
    if not isinstance(counts, dict) or 'total' not in counts:
        return None
    prompt, output, thoughts, cached, total = (min(counts.get(kind, 0), MAX_TOKENS) for kind in KINDS)
    if not total or prompt + output + thoughts <= total:
        output += thoughts
    if prompt or output:
        prompt = max(prompt, total - output)
    tokens = {'prompt': prompt, 'output': output, 'thoughts': min(thoughts, output), 'cached': cached, 'total': total}
    model = NOT_IN_COLUMNS.sub('\ufffd', summary.get('asked_model') or summary.get('model') or '')
    day = int(timestamp // DAY_S) if 0 <= timestamp < END_OF_TIME_S else 0
    return model, day, tokens | {'calls': 1, 'unclear': int(not prompt and not output)}


def sum_usages(events):
    """Return the sums of events by model and day."""
    sums = defaultdict(Counter)
    for _, summary, timestamp in events:
        if usage := usage_of_event(summary, timestamp):
            model, day, tokens = usage
            sums[model, day].update(tokens)
    return sums.items()


def sum_indexed_events(apps, schema_editor):
    """Sum up the events that the index covers; the indexer adds later ones."""
    events = apps.get_model('sessions_app', 'Event').objects.filter(total_tokens__gt=0)
    indexed = events.filter(seq__lte=models.F('session__indexed_seq')).order_by('session_id', 'seq')
    rows = indexed.values_list('session_id', 'summary', 'timestamp').iterator()
    usage = apps.get_model('sessions_app', 'SessionUsage')
    sums = (
        usage(session_id=pk, model=model, day=day, **tokens)
        for pk, of_session in groupby(rows, itemgetter(0))
        for (model, day), tokens in sum_usages(of_session)
    )
    while batch := list(islice(sums, BATCH)):
        usage.objects.bulk_create(batch)


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0026_trends'),
    ]

    operations = [
        AddColumn(
            model_name='nestedrun',
            name='usage',
            field=models.TextField(db_default='{}', default='{}', help_text='JSON: tokens of its own model calls by model and kind.'),
        ),
        CreateModels(migrations.CreateModel(
            name='SessionUsage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.TextField(help_text='The model that was asked, else the version that answered; empty: unknown.')),
                ('day', models.IntegerField(help_text='UTC; days since the epoch.')),
                ('calls', models.BigIntegerField()),
                ('unclear', models.BigIntegerField(help_text='Calls of which only the total is known.')),
                ('prompt', models.BigIntegerField(help_text='Cached tokens included.')),
                ('output', models.BigIntegerField(help_text='Thoughts included.')),
                ('thoughts', models.BigIntegerField()),
                ('cached', models.BigIntegerField()),
                ('total', models.BigIntegerField()),
                ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='usage', to='sessions_app.agentsession')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('session', 'model', 'day'), name='usage_identity')],
            },
        )),
        migrations.RunPython(sum_indexed_events, migrations.RunPython.noop, elidable=True),
    ]
