"""Playground runs: recorded model calls that are changed and sent again."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evals_app', '0001_schema'),
        ('sessions_app', '0005_run_duration'),
    ]

    operations = [
        migrations.CreateModel(
            name='PlaygroundRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField(default='')),
                ('person', models.TextField(default='', help_text='Name of the person who started it; empty: unknown.')),
                ('columns', models.TextField(help_text='JSON: see `playground.columns.RequestColumn`.')),
                ('created_at', models.FloatField()),
                ('call', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='playground_runs', to='sessions_app.modelcall')),
                ('runtime', models.ForeignKey(help_text='The process that makes the calls.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='sessions_app.runtimeprocess')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='playground_runs', to='sessions_app.agentsession')),
            ],
        ),
        migrations.CreateModel(
            name='PlaygroundAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('column', models.IntegerField(help_text='Position of its column, from 0.')),
                ('repetition', models.IntegerField(help_text='1, 2, 3 … within its column.')),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='queued', max_length=16)),
                ('model', models.TextField()),
                ('started_at', models.FloatField(null=True)),
                ('first_at', models.FloatField(help_text='Time of the first chunk or the response.', null=True)),
                ('finished_at', models.FloatField(null=True)),
                ('response', models.TextField(default='[]', help_text='JSON: the responses; while they are streamed, the text so far.')),
                ('prompt_tokens', models.IntegerField(default=0)),
                ('output_tokens', models.IntegerField(default=0)),
                ('thought_tokens', models.IntegerField(default=0)),
                ('cached_tokens', models.IntegerField(default=0)),
                ('total_tokens', models.IntegerField(default=0)),
                ('error_type', models.TextField(default='')),
                ('error', models.TextField(default='')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='answers', to='evals_app.playgroundrun')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('status__in', ['queued', 'running'])), fields=['run'], name='playground_answer_active')],
                'constraints': [models.UniqueConstraint(fields=('run', 'column', 'repetition'), name='playground_answer_identity')],
            },
        ),
    ]
