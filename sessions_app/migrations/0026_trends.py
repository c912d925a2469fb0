"""The table of trends, and the cursor of each trace."""

from django.db import migrations, models

from sessions_app.store.migration_operations import AddColumn, AddIndexOnly


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0025_nested_runs_logs_and_problems'),
    ]

    operations = [
        migrations.CreateModel(
            name='TrendBucket',
            fields=[
                ('key', models.CharField(help_text='Hash of what it is about.', max_length=32, primary_key=True, serialize=False)),
                ('measure', models.CharField(choices=[('invocation', 'Invocation'), ('model', 'Model'), ('tool', 'Tool'), ('problem', 'Problem')], max_length=10)),
                ('dimension', models.CharField(choices=[('all', 'All'), ('agent', 'Agent'), ('user', 'User'), ('code', 'Code'), ('sample', 'Sample')], max_length=6)),
                ('hourly', models.BooleanField(help_text='An hour; false: a day.')),
                ('start', models.BigIntegerField(help_text='Start in seconds since the epoch.')),
                ('app_name', models.TextField()),
                ('value', models.TextField(help_text='The agent, user or code version; empty: unknown, or all.')),
                ('sample', models.SmallIntegerField(help_text='Number of the sample; 0 for other dimensions.')),
                ('name', models.TextField(help_text='Model, tool or code of the problem; empty for invocations.')),
                ('label', models.TextField(help_text='Git revision of a code version, if known.')),
                ('first_at', models.FloatField(help_text='Time of the first observation.')),
                ('count', models.BigIntegerField()),
                ('errors', models.BigIntegerField()),
                ('latency', models.TextField(help_text='JSON: histogram of seconds. See `trends.histogram`.')),
                ('first_token', models.TextField(help_text='JSON: histogram of the seconds until the first token.')),
                ('prompt_tokens', models.BigIntegerField()),
                ('cached_tokens', models.BigIntegerField(help_text="Among the prompt's.")),
                ('output_tokens', models.BigIntegerField()),
                ('thought_tokens', models.BigIntegerField(help_text="Among the output's.")),
            ],
            options={
                'indexes': [models.Index(fields=['measure', 'dimension', 'hourly', 'app_name', 'start'], name='trend_read')],
            },
        ),
        AddColumn(
            model_name='trace',
            name='counted_until',
            field=models.FloatField(db_default=0.0, default=0.0, help_text='Its end when it was last added to the trends; 0: never.'),
        ),
        AddIndexOnly(
            model_name='trace',
            index=models.Index(condition=models.Q(('finished_at__gt', models.F('counted_until'))), fields=['id'], name='trace_uncounted'),
        ),
    ]
