"""Variants of agents: what a run changes of its agent, and the run of the original."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evals_app', '0003_fixtures'),
    ]

    operations = [
        migrations.AddField(
            model_name='evalrun',
            name='variant',
            field=models.TextField(db_default='', default='', help_text='JSON: {name, note, agents} of a variant; empty: the agent as it is.'),
        ),
        migrations.AddField(
            model_name='evalrun',
            name='variant_hash',
            field=models.CharField(db_default='', default='', help_text='Hash of what the variant changes.', max_length=16),
        ),
        migrations.AddField(
            model_name='evalrun',
            name='variant_of',
            field=models.ForeignKey(help_text='The run of the original that was ordered with this run of a variant.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='variant_runs', to='evals_app.evalrun'),
        ),
    ]
