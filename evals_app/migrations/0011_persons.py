from django.db import migrations, models

from sessions_app.store.migration_operations import AddColumn


class Migration(migrations.Migration):

    dependencies = [
        ('evals_app', '0010_runtime_of_attempts'),
    ]

    operations = [
        AddColumn(
            model_name='evalrun',
            name='person',
            field=models.TextField(db_default='', default='', help_text='Name of the person who ordered or last resumed it; empty: unknown.'),
        ),
        AddColumn(
            model_name='evalrun',
            name='baseline_person',
            field=models.TextField(db_default='', default='', help_text='Name of the person who made it the baseline; empty: unknown.'),
        ),
        AddColumn(
            model_name='evalrun',
            name='note_person',
            field=models.TextField(db_default='', default='', help_text='Name of the person who wrote the note; empty: unknown.'),
        ),
        AddColumn(
            model_name='evalattempt',
            name='note_person',
            field=models.TextField(db_default='', default='', help_text='Name of the person who wrote the note; empty: unknown.'),
        ),
    ]
