from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evals_app', '0005_runs_go_on_by_themselves'),
    ]

    operations = [
        migrations.AddField(
            model_name='evalattempt',
            name='judged_by',
            field=models.TextField(default='', help_text="The metric that judges it by a model or a function of people's own, or did last."),
        ),
        migrations.AddField(
            model_name='evalattempt',
            name='waited_seconds',
            field=models.FloatField(default=0.0, help_text='Time spent waiting to ask models again.'),
        ),
        migrations.AddField(
            model_name='evalattempt',
            name='waits_for',
            field=models.TextField(default='', help_text='While it runs: which model it waits for before that is asked again, and why.'),
        ),
        migrations.AlterField(
            model_name='evalrun',
            name='limits',
            field=models.TextField(default='{}', help_text='JSON: {seconds, tokens, cost} of the run; attempt_seconds, retry_seconds.'),
        ),
    ]
