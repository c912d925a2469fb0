from django.db import migrations, models

from sessions_app.store.migration_operations import AddColumn, AddIndexOnly


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0023_plain_help_texts'),
    ]

    operations = [
        AddColumn(
            model_name='agentsession',
            name='problem_count',
            field=models.IntegerField(db_default=0, default=0, help_text='Errors and warnings among its problems.'),
        ),
        AddColumn(
            model_name='agentsession',
            name='problems_beyond',
            field=models.IntegerField(db_default=0, default=0, help_text='Those of them that are not stored.'),
        ),
        AddColumn(
            model_name='agentsession',
            name='problems_seq',
            field=models.BigIntegerField(db_default=-1, default=-1, help_text='Events up to this seq were checked for problems.'),
        ),
        AddColumn(
            model_name='agentsession',
            name='problems_version',
            field=models.IntegerField(db_default=0, default=0, help_text='Grows with every check, and whenever events must be checked again.'),
        ),
        migrations.AlterField(
            model_name='sessiontrait',
            name='name',
            field=models.CharField(choices=[('kind', 'Kind'), ('author', 'Author'), ('tool', 'Tool'), ('error', 'Error'), ('branch', 'Branch'), ('problem', 'Problem')], max_length=8),
        ),
        AddIndexOnly(
            model_name='agentsession',
            index=models.Index(condition=models.Q(('last_seq__gt', models.F('problems_seq'))), fields=['id'], name='session_unchecked'),
        ),
        AddIndexOnly(
            model_name='agentsession',
            index=models.Index(condition=models.Q(('problem_count__gt', 0)), fields=['realm', '-updated_at', '-id'], name='session_with_problems'),
        ),
    ]
