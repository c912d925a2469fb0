"""All tables of evals_app as migrations 0001 to 0009 leave them, for new stores: one step takes a fraction of their time.

A store that has some of those migrations goes on with the others of them, so they stay where they are.
"""

import django.db.models.deletion
from django.db import migrations, models

from sessions_app.store.migration_operations import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('evals_app', '0001_initial'),
        ('evals_app', '0002_runs_taken_up_again'),
        ('evals_app', '0003_when_runs_are_given_out'),
        ('evals_app', '0004_attempts_have_a_cause'),
        ('evals_app', '0005_runs_go_on_by_themselves'),
        ('evals_app', '0006_attempts_say_what_they_wait_for'),
        ('evals_app', '0007_run_time_by_the_clock_of_its_process'),
        ('evals_app', '0008_runs_of_a_shard'),
        ('evals_app', '0009_plain_help_texts'),
    ]

    initial = True

    dependencies = [
        ('sessions_app', '0001_squashed_0028'),
    ]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name='KnownMetric',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.TextField(unique=True)),
                    ('data', models.TextField(help_text='JSON: see `engine.metrics.describe_metrics`.')),
                    ('adk_version', models.CharField(default='', max_length=32)),
                    ('seen_at', models.FloatField(default=0.0)),
                ],
            ),
            migrations.CreateModel(
                name='EvalSet',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('app_name', models.TextField()),
                    ('evalset_id', models.TextField()),
                    ('path', models.TextField(help_text='Relative to the agents folder, or absolute if outside.')),
                    ('format', models.CharField(default='json', help_text='json or yaml.', max_length=8)),
                    ('form', models.CharField(default='evalset', help_text='evalset, legacy or flat.', max_length=8)),
                    ('name', models.TextField(default='')),
                    ('description', models.TextField(default='')),
                    ('digest', models.CharField(default='', help_text="SHA-256 of the file's bytes.", max_length=64)),
                    ('stamp', models.TextField(default='', help_text='Size and change time; the file is read again if it differs.')),
                    ('cases', models.TextField(default='[]', help_text='JSON: [{id, turns, scenario, says}] for lists.')),
                    ('case_count', models.IntegerField(default=0)),
                    ('problems', models.TextField(default='[]', help_text='JSON: why the file cannot be used.')),
                    ('warnings', models.TextField(default='[]', help_text='JSON: probable mistakes, in words.')),
                    ('gone', models.BooleanField(default=False, help_text='The file was deleted.')),
                    ('seen_at', models.FloatField(default=0.0)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('app_name', 'evalset_id'), name='evalset_identity')],
                },
            ),
            migrations.CreateModel(
                name='EvalSetVersion',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('digest', models.CharField(max_length=64)),
                    ('content', models.TextField(help_text="JSON: ADK's EvalSet, snake case.")),
                    ('created_at', models.FloatField()),
                    ('evalset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='evals_app.evalset')),
                    ('note', models.TextField(default='', help_text='Comment of the person who changed it.')),
                    ('origin', models.CharField(default='disk', help_text='disk, page, api or session.', max_length=16)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('evalset', 'digest'), name='evalset_version_identity')],
                },
            ),
            migrations.CreateModel(
                name='EvalRun',
                fields=[
                    ('id', models.CharField(max_length=32, primary_key=True, serialize=False)),
                    ('app_name', models.TextField(help_text='The agent that runs, whatever the cases name.')),
                    ('status', models.CharField(choices=[('pending', 'Pending'), ('running', 'Running'), ('done', 'Done'), ('failed', 'could not run'), ('cancelled', 'Cancelled'), ('stopped', 'stopped at a limit'), ('crashed', 'Crashed')], default='pending', max_length=16)),
                    ('source', models.CharField(default='page', help_text='page, api, command, pytest or import: who ordered it.', max_length=16)),
                    ('config', models.TextField(help_text="JSON: ADK's EvalConfig.")),
                    ('config_source', models.TextField(default='')),
                    ('case_ids', models.TextField(default='[]', help_text='JSON: the cases chosen; empty: all.')),
                    ('num_runs', models.IntegerField(default=1)),
                    ('parallelism', models.IntegerField(default=4, help_text='Attempts at once; may change while it runs.')),
                    ('warnings', models.TextField(default='[]', help_text='JSON: probable mistakes, in words.')),
                    ('code_version', models.CharField(default='', help_text="Hash of the agent's files.", max_length=64)),
                    ('git_revision', models.TextField(default='', help_text="Commit of the agent's folder; + when changed.")),
                    ('adk_version', models.CharField(default='', max_length=32)),
                    ('agent_models', models.TextField(default='{}', help_text='JSON: agent → model.')),
                    ('created_at', models.FloatField()),
                    ('started_at', models.FloatField(null=True)),
                    ('finished_at', models.FloatField(null=True)),
                    ('cancel_requested_at', models.FloatField(null=True)),
                    ('error_type', models.TextField(default='')),
                    ('error', models.TextField(default='')),
                    ('hint', models.TextField(default='')),
                    ('traceback', models.TextField(default='')),
                    ('revision', models.BigIntegerField(default=0, help_text="Grows with every change: live pages' cursor.")),
                    ('total', models.IntegerField(default=0)),
                    ('passed', models.IntegerField(default=0)),
                    ('failed', models.IntegerField(default=0)),
                    ('errors', models.IntegerField(default=0)),
                    ('incomplete', models.IntegerField(default=0)),
                    ('cancelled', models.IntegerField(default=0)),
                    ('runtime', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='eval_runs', to='sessions_app.runtimeprocess')),
                    ('evalset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='evals_app.evalset')),
                    ('version', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='evals_app.evalsetversion')),
                    ('baseline', models.BooleanField(default=False, help_text='Later runs are compared with it.')),
                    ('limits', models.TextField(default='{}', help_text='JSON: {seconds, tokens, cost} of the run; attempt_seconds, retry_seconds.')),
                    ('note', models.TextField(default='', help_text='Comment of a person.')),
                    ('policy', models.TextField(default='{}', help_text='JSON: {models, tools, source} of the replay.')),
                    ('prices', models.TextField(default='{}', help_text='JSON: the price table used, so that costs stay.')),
                    ('repeats', models.ForeignKey(help_text='The run that this one repeats exactly.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='repeated_by', to='evals_app.evalrun')),
                    ('resumed', models.IntegerField(default=0, help_text='How often it was resumed.')),
                    ('spent_seconds', models.FloatField(default=0.0, help_text='Seconds that it ran before its current start.')),
                    ('stopped_because', models.TextField(default='', help_text='The limit that was reached.')),
                    ('queued_at', models.FloatField(default=0.0, help_text='When it was last sent to a runtime.')),
                    ('limits_from', models.FloatField(help_text='Start from which its limits count: its first, or after a person resumed it.', null=True)),
                    ('last_step_at', models.FloatField(help_text="Latest time of its process's stopwatch that is stored. A later start is never before it.", null=True)),
                    ('limits_seconds', models.FloatField(default=0.0, help_text='Seconds before its current start that count for its limit of seconds.')),
                    ('shard', models.CharField(default='', help_text='The part of the cases that it runs, such as 2/4; empty: all.', max_length=16)),
                ],
                options={
                    'indexes': [models.Index(fields=['evalset', '-created_at'], name='eval_run_newest'), models.Index(fields=['status', 'created_at'], name='eval_run_by_status')],
                    'constraints': [models.UniqueConstraint(condition=models.Q(('baseline', True)), fields=('evalset',), name='eval_run_one_baseline')],
                },
            ),
            migrations.CreateModel(
                name='EvalAttempt',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('case_index', models.IntegerField(help_text='Place of the case in the evalset, from 0.')),
                    ('case_id', models.TextField()),
                    ('repetition', models.IntegerField(help_text='From 1.')),
                    ('status', models.CharField(choices=[('pending', 'Pending'), ('running', 'Running'), ('passed', 'Passed'), ('failed', 'Failed'), ('error', 'Error'), ('incomplete', 'Incomplete'), ('cancelled', 'Cancelled')], default='pending', max_length=16)),
                    ('realm', models.TextField()),
                    ('started_at', models.FloatField(null=True)),
                    ('finished_at', models.FloatField(null=True)),
                    ('total_tokens', models.BigIntegerField(default=0)),
                    ('error_type', models.TextField(default='')),
                    ('error', models.TextField(default='')),
                    ('traceback', models.TextField(default='')),
                    ('actual', models.TextField(default='[]', help_text="JSON: ADK's invocations as they happened, snake case.")),
                    ('revision', models.BigIntegerField(default=0, help_text="The run's revision at the last change.")),
                    ('session', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='eval_attempts', to='sessions_app.agentsession')),
                    ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='evals_app.evalrun')),
                    ('by_model', models.TextField(default='{}', help_text='JSON: {model: {prompt, output, cached, calls}}, tokens and calls.')),
                    ('cached_tokens', models.BigIntegerField(default=0)),
                    ('cancel_requested_at', models.FloatField(null=True)),
                    ('cost', models.FloatField(help_text='In the currency of the price table; null: unknown.', null=True)),
                    ('differences', models.TextField(default='[]', help_text="JSON: replay's requests that differ from the recording.")),
                    ('earlier', models.TextField(default='[]', help_text='JSON: tries before: [{try, status, why, error_type, error, started_at, finished_at, realm, session, total_tokens, cost}].')),
                    ('judge', models.TextField(default='{}', help_text='JSON: {model: {prompt, output, cached, calls}} of judges.')),
                    ('model_seconds', models.FloatField(help_text='Time spent waiting for models; null: unknown.', null=True)),
                    ('note', models.TextField(default='', help_text='Comment of a person.')),
                    ('output_tokens', models.BigIntegerField(default=0)),
                    ('prompt_tokens', models.BigIntegerField(default=0)),
                    ('stopped_because', models.TextField(default='', help_text='Reason of the cancellation.')),
                    ('tries', models.IntegerField(default=0, help_text='Number of tries, including the first.')),
                    ('cause', models.TextField(default='', help_text='Why it did not pass, in words that attempts of one cause share.')),
                    ('judged_by', models.TextField(default='', help_text="The metric that judges it by a model or a function of people's own, or did last.")),
                    ('waited_seconds', models.FloatField(default=0.0, help_text='Time spent waiting to ask models again.')),
                    ('waits_for', models.TextField(default='', help_text='While it runs: which model it waits for before that is asked again, and why.')),
                ],
                options={
                    'indexes': [models.Index(fields=['run', 'revision'], name='eval_attempt_changed'), models.Index(fields=['run', 'status'], name='eval_attempt_by_status')],
                    'constraints': [models.UniqueConstraint(fields=('run', 'case_index', 'repetition'), name='eval_attempt_identity')],
                },
            ),
            migrations.CreateModel(
                name='MetricResult',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('position', models.IntegerField(help_text="Place of the metric in the run's list.")),
                    ('metric', models.TextField()),
                    ('invocation', models.IntegerField(help_text='Turn, from 0; null: overall.', null=True)),
                    ('score', models.FloatField(null=True)),
                    ('threshold', models.FloatField(null=True)),
                    ('status', models.CharField(choices=[('passed', 'Passed'), ('failed', 'Failed'), ('not_evaluated', 'not evaluated'), ('informational', 'Informational')], max_length=16)),
                    ('reason', models.TextField(default='', help_text='Why it was not evaluated, or what to know of the score.')),
                    ('details', models.TextField(default='{}', help_text='JSON: rubric verdicts, token and time breakdowns.')),
                    ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='results', to='evals_app.evalattempt')),
                ],
                options={
                    'indexes': [models.Index(fields=['attempt', 'invocation', 'position'], name='metric_of_attempt')],
                },
            ),
        ),
    ]
