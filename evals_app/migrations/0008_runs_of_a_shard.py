from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evals_app', '0007_run_time_by_the_clock_of_its_process'),
    ]

    operations = [
        migrations.AddField(
            model_name='evalrun',
            name='shard',
            field=models.CharField(default='', help_text='The part of the cases that it runs, such as 2/4; empty: all.', max_length=16),
        ),
    ]
