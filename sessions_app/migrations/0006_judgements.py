"""Judgements of people on events."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0005_run_duration')]

    operations = [
        migrations.CreateModel(
            name='EventJudgement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seq', models.BigIntegerField(help_text='Number of the event.')),
                ('verdict', models.CharField(max_length=9, choices=[('good', 'good'), ('bad', 'bad'), ('withdrawn', 'withdrawn')])),
                ('note', models.TextField(default='')),
                ('person', models.TextField(default='', help_text='Name of the person who judged last; empty: unknown.')),
                ('judged_at', models.FloatField(help_text='Time of the last change.')),
                ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='judgements', to='sessions_app.agentsession')),
            ],
            options={
                'indexes': [
                    models.Index(fields=['session', 'judged_at'], name='judgement_newest'),
                    models.Index(fields=['verdict', 'session'], name='session_by_judgement'),
                ],
                'constraints': [models.UniqueConstraint(fields=('session', 'seq'), name='judgement_of_event')],
            },
        ),
    ]
