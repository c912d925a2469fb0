"""Tokens of sessions by model and day, summed up for the events that are indexed already."""

from itertools import groupby, islice
from operator import itemgetter

import django.db.models.deletion
from django.db import migrations, models

from sessions_app.prices.costs import call_of_json
from sessions_app.prices.session_usage import sum_calls
from sessions_app.store.migration_operations import AddColumn, CreateModels

BATCH = 500

def sum_indexed_events(apps, schema_editor):
    """Sum up the events that the index covers; the indexer adds later ones."""
    events = apps.get_model('sessions_app', 'Event').objects.filter(total_tokens__gt=0)
    indexed = events.filter(seq__lte=models.F('session__indexed_seq')).order_by('session_id', 'seq')
    rows = indexed.values_list('session_id', 'summary', 'timestamp').iterator()
    usage = apps.get_model('sessions_app', 'SessionUsage')
    sums = (
        usage(session_id=pk, model=call.model, day=call.day, **call.tokens)
        for pk, of_session in groupby(rows, itemgetter(0))
        for call in sum_calls(call_of_json(summary, at) for _, summary, at in of_session)
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
