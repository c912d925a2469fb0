import django.db.models.deletion
from django.db import migrations, models
from django.db.models import OuterRef, Subquery

from sessions_app.store.migration_operations import AddColumn, AddIndexOnly


def set_runtimes(apps, schema_editor):
    """Set the process of the attempts in flight: until now it was always that of their run."""
    run = apps.get_model("evals_app", "EvalRun").objects.filter(pk=OuterRef("run_id")).order_by()
    attempts = apps.get_model("evals_app", "EvalAttempt").objects.filter(status="running")
    attempts.update(runtime_id=Subquery(run.values("runtime_id")[:1]))


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0028_index_of_trends'),
        ('evals_app', '0009_plain_help_texts'),
    ]

    operations = [
        AddColumn(
            model_name='evalattempt',
            name='runtime',
            field=models.ForeignKey(db_index=False, help_text='The process that executes its last try, or did; the queue, while a job is to deliver it.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='sessions_app.runtimeprocess'),
        ),
        AddIndexOnly(
            model_name='evalattempt',
            index=models.Index(condition=models.Q(('runtime__isnull', False)), fields=['runtime'], name='eval_attempt_by_runtime'),
        ),
        migrations.RunPython(set_runtimes, migrations.RunPython.noop),
    ]
