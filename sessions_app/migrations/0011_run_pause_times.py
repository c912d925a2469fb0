"""Times for which runs were paused, which are not part of their duration."""

from django.db import migrations, models
from django.db.models import F


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0010_pause_outcomes')]

    operations = [
        migrations.RemoveIndex('run', 'run_by_duration'),
        migrations.AddField('run', 'paused_s', models.FloatField(
            default=0.0, db_default=0.0, help_text='Seconds for which it waited for decisions of persons.'
        )),
        migrations.AddField('run', 'paused_times', models.TextField(
            default='[]', db_default='[]', help_text='JSON: the newest of these intervals, [start, end], in order.'
        )),
        migrations.AddIndex('run', models.Index(
            models.Func(
                F('finished_at') - F('started_at') - F('paused_s'),
                template='coalesce(%(expressions)s, 0.0)',
                output_field=models.FloatField(),
            ),
            F('id'),
            name='run_by_duration',
        )),
    ]
