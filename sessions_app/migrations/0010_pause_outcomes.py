"""Pauses after calls of tools, at errors and at writes of state."""

from django.db import migrations, models

KINDS = [
    ('model', 'Model'),
    ('tool', 'Tool'),
    ('result', 'Result'),
    ('tool_error', 'Tool Error'),
    ('model_error', 'Model Error'),
    ('state', 'State'),
]


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0009_span_details')]

    operations = [
        migrations.AlterField('runpause', 'agent', models.TextField(help_text='Agent that calls or writes.')),
        migrations.AlterField(
            'runpause',
            'content',
            models.TextField(help_text='JSON: what the pause shows, and the state. See `runs.pauses`.'),
        ),
        migrations.AlterField('runpause', 'kind', models.CharField(choices=KINDS, max_length=11)),
        migrations.AlterField(
            'runpause', 'target', models.TextField(help_text='Name of the tool or model, or of the state keys.')
        ),
    ]
