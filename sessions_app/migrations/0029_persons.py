from django.db import migrations, models

from sessions_app.store.migration_operations import AddColumn


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0028_index_of_trends'),
    ]

    operations = [
        AddColumn(
            model_name='agentsession',
            name='title_person',
            field=models.TextField(db_default='', default='', help_text='Name of the person who set the title; empty: unknown.'),
        ),
        AddColumn(
            model_name='agentsession',
            name='pinned_person',
            field=models.TextField(db_default='', default='', help_text='Name of the person who pinned it; empty: unknown.'),
        ),
        AddColumn(
            model_name='sessiontag',
            name='person',
            field=models.TextField(db_default='', default='', help_text='Name of the person who added it; empty: unknown.'),
        ),
        AddColumn(
            model_name='run',
            name='person',
            field=models.TextField(db_default='', default='', help_text='Name of the person who started it; empty: unknown.'),
        ),
    ]
