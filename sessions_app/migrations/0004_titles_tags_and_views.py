
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0003_untracked_keys'),
    ]

    operations = [
        migrations.CreateModel(
            name='DeletedSession',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('batch', models.CharField(help_text='What was deleted together comes back together.', max_length=32)),
                ('realm', models.TextField(default='', help_text='Where it was and comes back to.')),
                ('deleted_at', models.FloatField()),
            ],
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64, unique=True)),
                ('query', models.TextField(help_text='The query string of its page, without the place on it.')),
                ('created_at', models.FloatField()),
                ('updated_at', models.FloatField()),
            ],
        ),
        migrations.CreateModel(
            name='SessionTag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64)),
            ],
        ),
        migrations.AddField(
            model_name='agentsession',
            name='pinned_at',
            field=models.FloatField(help_text='When a person pinned it; null: it is not pinned.', null=True),
        ),
        migrations.AddIndex(
            model_name='agentsession',
            index=models.Index(condition=models.Q(('pinned_at__isnull', False)), fields=['realm', '-pinned_at', '-id'], name='session_pinned'),
        ),
        migrations.AddField(
            model_name='deletedsession',
            name='session',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='deletion', to='sessions_app.agentsession'),
        ),
        migrations.AddField(
            model_name='sessiontag',
            name='session',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tags', to='sessions_app.agentsession'),
        ),
        migrations.AddIndex(
            model_name='deletedsession',
            index=models.Index(fields=['batch'], name='deleted_together'),
        ),
        migrations.AddIndex(
            model_name='deletedsession',
            index=models.Index(fields=['deleted_at'], name='deleted_when'),
        ),
        migrations.AddIndex(
            model_name='sessiontag',
            index=models.Index(fields=['name', 'session'], name='session_by_tag'),
        ),
        migrations.AddConstraint(
            model_name='sessiontag',
            constraint=models.UniqueConstraint(fields=('session', 'name'), name='session_tag_identity'),
        ),
    ]
