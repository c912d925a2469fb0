"""Indexes of the orders in which lists can be sorted."""

from django.db import migrations
from django.db.models import F, Index

from sessions_app.store.database.migration_operations import AddIndexes


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0002_nested_sessions')]

    operations = [
        AddIndexes(
            'agentsession',
            Index(fields=['realm', 'user_id', '-id'], name='session_by_user'),
            Index(fields=['realm', 'last_seq', 'id'], name='session_by_events'),
            Index(fields=['realm', 'total_tokens', 'id'], name='session_by_tokens'),
            Index(fields=['realm', 'problem_count', 'id'], name='session_by_problems'),
            Index(F('realm'), F('updated_at') - F('created_at'), F('id'), name='session_by_duration'),
        ),
        AddIndexes('artifact', Index(fields=['realm', 'size', 'id'], name='artifact_by_size')),
    ]
