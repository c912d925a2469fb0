"""Optimisations of instructions: their settings, and the steps of their optimisers."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evals_app', '0004_variants'),
        ('sessions_app', '0006_judgements'),
    ]

    operations = [
        migrations.AlterField(
            model_name='evalrun',
            name='source',
            field=models.CharField(default='page', help_text='page, api, command, pytest or import: who ordered it; confirm or retry: what it repeats; optimise.', max_length=16),
        ),
        migrations.CreateModel(
            name='Optimisation',
            fields=[
                ('id', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('agent', models.TextField(help_text='Name of the root agent.')),
                ('instruction', models.TextField(help_text='The instruction of the root agent in its files.')),
                ('code_version', models.CharField(help_text="Hash of the agent's files.", max_length=64)),
                ('settings', models.TextField(help_text='JSON: see `optimisation.settings.OptimiserSettings`.')),
                ('run_order', models.TextField(help_text='JSON: {config, config_source, parallelism, limits, policy, prices} of its runs.')),
                ('source', models.CharField(help_text='page or command: who started it.', max_length=16)),
                ('person', models.TextField(help_text='Name of the person who started or last resumed it; empty: unknown.')),
                ('status', models.CharField(choices=[('running', 'Running'), ('done', 'Done'), ('failed', 'could not run'), ('cancelled', 'Cancelled'), ('stopped', 'stopped at a limit'), ('crashed', 'Crashed')], default='running', max_length=16)),
                ('created_at', models.FloatField()),
                ('finished_at', models.FloatField(null=True)),
                ('cancel_requested_at', models.FloatField(null=True)),
                ('resumed', models.IntegerField(default=0, help_text='How often it was resumed.')),
                ('best_instruction', models.TextField(help_text='What the optimiser found; null: it has not ended.', null=True)),
                ('error', models.TextField(default='', help_text='Why it could not run, or the limit that stopped it.')),
                ('hint', models.TextField(default='')),
                ('comparison', models.ForeignKey(help_text='The run of the original on the validation cases, with which the best candidate is compared.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='evals_app.evalrun')),
                ('evalset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='optimisations', to='evals_app.evalset')),
                ('runtime', models.ForeignKey(help_text='The process that carries it out.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='sessions_app.runtimeprocess')),
                ('version', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='optimisations', to='evals_app.evalsetversion')),
            ],
        ),
        migrations.CreateModel(
            name='OptimisationStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.IntegerField(help_text='From 0.')),
                ('kind', models.CharField(choices=[('answer', 'Answer'), ('evaluation', 'Evaluation')], max_length=16)),
                ('prompt', models.TextField(default='', help_text='The request to the model.')),
                ('answer', models.TextField(default='', help_text='The answer of the model.')),
                ('prompt_tokens', models.IntegerField(default=0)),
                ('output_tokens', models.IntegerField(default=0)),
                ('thought_tokens', models.IntegerField(default=0)),
                ('cached_tokens', models.IntegerField(default=0)),
                ('total_tokens', models.IntegerField(default=0)),
                ('instruction', models.TextField(default='', help_text='The instruction of the candidate.')),
                ('example_set', models.CharField(default='', help_text='train or validation, as in ADK.', max_length=16)),
                ('case_ids', models.TextField(default='[]', help_text='JSON: the cases of the batch.')),
                ('scores', models.TextField(default='', help_text='JSON: case → score; empty: its run has not ended.')),
                ('evaluation_data', models.TextField(default='', help_text="JSON: case → what happened, for the optimiser's model; empty: not requested.")),
                ('started_at', models.FloatField()),
                ('finished_at', models.FloatField(null=True)),
                ('optimisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='evals_app.optimisation')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='evals_app.evalrun')),
            ],
        ),
        migrations.AddIndex(
            model_name='optimisation',
            index=models.Index(fields=['evalset', '-created_at'], name='optimisation_newest'),
        ),
        migrations.AddConstraint(
            model_name='optimisationstep',
            constraint=models.UniqueConstraint(fields=('optimisation', 'position'), name='optimisation_step_identity'),
        ),
    ]
