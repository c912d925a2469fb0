"""Calls before which runs wait for a person's decision."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0006_judgements')]

    operations = [
        migrations.CreateModel(
            name='RunPause',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('model', 'Model'), ('tool', 'Tool')], max_length=5)),
                ('agent', models.TextField(help_text='Agent that calls.')),
                ('target', models.TextField(help_text='Name of the tool or model.')),
                ('content', models.TextField(help_text='JSON: what is about to be sent, and the state. See `runs.pauses`.')),
                ('created_at', models.FloatField()),
                ('expires_at', models.FloatField(help_text='When the run ends unless a person decides.')),
                ('decision', models.TextField(db_default='', default='', help_text='JSON; empty: none yet.')),
                ('decided_by', models.TextField(db_default='', default='', help_text='Name of the person; empty: unknown.')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pauses', to='sessions_app.run')),
            ],
        ),
    ]
