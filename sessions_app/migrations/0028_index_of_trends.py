from django.db import migrations, models

from sessions_app.store.migration_operations import AddIndexOnly


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0027_usage_of_sessions'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='trendbucket',
            name='trend_read',
        ),
        AddIndexOnly(
            model_name='trendbucket',
            index=models.Index(fields=['measure', 'dimension', 'hourly', 'app_name', 'start', 'value', 'count'], name='trend_groups'),
        ),
    ]
