"""Indexes of the orders in which lists can be sorted."""

from django.db import migrations, models
from django.db.models import F


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0001_schema')]

    operations = [
        migrations.AddIndex('agentsession', models.Index(fields=['realm', 'user_id', '-id'], name='session_by_user')),
        migrations.AddIndex('agentsession', models.Index(fields=['realm', 'last_seq', 'id'], name='session_by_events')),
        migrations.AddIndex(
            'agentsession', models.Index(fields=['realm', 'total_tokens', 'id'], name='session_by_tokens')
        ),
        migrations.AddIndex(
            'agentsession', models.Index(fields=['realm', 'problem_count', 'id'], name='session_by_problems')
        ),
        migrations.AddIndex(
            'agentsession',
            models.Index(F('realm'), F('updated_at') - F('created_at'), F('id'), name='session_by_duration'),
        ),
        migrations.AddIndex('artifact', models.Index(fields=['realm', 'size', 'id'], name='artifact_by_size')),
    ]
