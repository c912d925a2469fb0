"""An index of runs by their duration."""

from django.db import migrations, models
from django.db.models import F


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0004_problems_of_state')]

    operations = [
        migrations.AddIndex('run', models.Index(
            models.Func(F('finished_at') - F('started_at'), template='coalesce(%(expressions)s, 0.0)', output_field=models.FloatField()),
            F('id'),
            name='run_by_duration',
        )),
    ]
