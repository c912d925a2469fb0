"""Tables of nested runs, log records and problems, created in one step, which takes a fraction of the time."""

import django.db.models.deletion
from django.db import migrations, models

from sessions_app.store.migration_operations import CreateModels


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0024_problems_of_sessions'),
    ]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name='NestedEvent',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('ref', models.TextField(help_text="The nested run's `ref`.")),
                    ('number', models.IntegerField(help_text='1, 2, 3 … within the nested run.')),
                    ('event_id', models.TextField()),
                    ('author', models.TextField()),
                    ('kind', models.CharField(help_text='A value of `events.EventKind`.', max_length=16)),
                    ('timestamp', models.FloatField()),
                    ('branch', models.TextField(default='')),
                    ('is_final', models.BooleanField(default=False)),
                    ('total_tokens', models.IntegerField(default=0)),
                    ('summary', models.TextField(help_text='JSON: content of a timeline row. See `events.summarize`.')),
                    ('data', models.TextField(help_text="JSON: the event in ADK's wire form, redacted.")),
                    ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='nested_events', to='sessions_app.agentsession')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('session', 'ref', 'number'), name='nested_event_identity')],
                },
            ),
            migrations.CreateModel(
                name='NestedRun',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('ref', models.TextField(help_text="ADK's id of the nested invocation.")),
                    ('parent_ref', models.TextField(default='', help_text='`ref` of the nested run that made the call; empty: none.')),
                    ('seq', models.BigIntegerField(help_text="seq of the session's event with the outermost call; null: not stored yet.", null=True)),
                    ('invocation_id', models.TextField(help_text='Invocation of the session that it belongs to.')),
                    ('call_id', models.TextField(help_text='Id of the function call that it carries out.')),
                    ('agent', models.TextField()),
                    ('started_at', models.FloatField()),
                    ('finished_at', models.FloatField(help_text='Null: unfinished, or its process was killed.', null=True)),
                    ('changed_at', models.FloatField(help_text='Time of the last write, for live pages.')),
                    ('error', models.TextField(default='', help_text='Why it failed or was cut off; empty: it did not.')),
                    ('state', models.TextField(default='{}', help_text='JSON: state at its start, redacted and bounded.')),
                    ('state_omitted', models.IntegerField(default=0, help_text='Keys that `state` leaves out.')),
                    ('event_count', models.IntegerField(default=0, help_text='Number of its events.')),
                    ('stored_count', models.IntegerField(default=0, help_text='Number of its events that are stored.')),
                    ('total_tokens', models.BigIntegerField(default=0, help_text='Tokens of its own model calls.')),
                    ('indexed_count', models.IntegerField(db_default=0, default=0, help_text='Stored events in the search index.')),
                    ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='nested_runs', to='sessions_app.agentsession')),
                ],
                options={
                    'indexes': [models.Index(fields=['session', 'seq'], name='nested_run_of_event'), models.Index(fields=['session', 'changed_at'], name='nested_run_changed'), models.Index(condition=models.Q(('finished_at__isnull', False), ('seq__isnull', False), ('stored_count__gt', models.F('indexed_count'))), fields=['id'], name='nested_run_unindexed')],
                    'constraints': [models.UniqueConstraint(fields=('session', 'ref'), name='nested_run_identity')],
                },
            ),
            migrations.CreateModel(
                name='SessionProblem',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('code', models.CharField(max_length=64)),
                    ('severity', models.CharField(help_text='A value of `problems.Severity`.', max_length=8)),
                    ('invocation_id', models.TextField(default='')),
                    ('seq', models.BigIntegerField(default=0, help_text='seq of the event; 0: the invocation as a whole.')),
                    ('agent', models.TextField(default='')),
                    ('text', models.TextField(help_text='One sentence.')),
                    ('links', models.TextField(default='[]', help_text='JSON: kind, target and label of each piece of evidence.')),
                    ('more', models.IntegerField(default=0, help_text='Number of further problems like it that are not stored.')),
                    ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='problems', to='sessions_app.agentsession')),
                ],
                options={
                    'indexes': [models.Index(fields=['session', 'seq', 'id'], name='problem_of_event'), models.Index(fields=['session', 'invocation_id'], name='problem_of_invocation')],
                },
            ),
            migrations.CreateModel(
                name='LogRecord',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('invocation_id', models.TextField()),
                    ('ref', models.CharField(help_text="The recorder's id of its part of the invocation.", max_length=32)),
                    ('number', models.IntegerField(help_text='1, 2, 3 … within `ref`.')),
                    ('at', models.FloatField()),
                    ('level', models.IntegerField(help_text="Python's number: 20 is INFO, 30 WARNING, 40 ERROR.")),
                    ('source', models.CharField(choices=[('log', 'Log'), ('stdout', 'Stdout'), ('stderr', 'Stderr')], max_length=8)),
                    ('logger', models.TextField(default='', help_text='Name of the logger; empty: printed.')),
                    ('agent', models.TextField(default='', help_text='Agent that was running, if known.')),
                    ('tool', models.TextField(default='', help_text='Tool that was running, if known.')),
                    ('call_id', models.TextField(default='', help_text="Id of the tool's function call, if known.")),
                    ('after_event_id', models.TextField(default='', help_text="ADK id of the invocation's last event before it; empty: none.")),
                    ('message', models.TextField(help_text='Without credentials; a long one is truncated.')),
                    ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='log_records', to='sessions_app.agentsession')),
                ],
                options={
                    'indexes': [models.Index(fields=['session', 'invocation_id', 'id'], name='log_of_invocation'), models.Index(fields=['session', 'id'], name='log_of_session')],
                    'constraints': [models.UniqueConstraint(fields=('session', 'ref', 'number'), name='log_record_identity')],
                },
            ),
        ),
    ]
