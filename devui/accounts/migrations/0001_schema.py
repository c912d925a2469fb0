"""All tables of accounts, and the triggers that keep the audit log append-only."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from sessions_app.store.database import append_only
from devui.accounts.migrations import REPLACED
from sessions_app.store.database.migration_operations import CreateModels

TABLE = 'accounts_auditentry'


def create_triggers(apps, schema_editor):
    append_only.create_triggers(schema_editor.connection, TABLE)


def drop_triggers(apps, schema_editor):
    append_only.drop_triggers(schema_editor.connection, TABLE)


class Migration(migrations.Migration):

    replaces = REPLACED

    initial = True

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name='AuditEntry',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('at', models.FloatField()),
                    ('person', models.CharField(max_length=200)),
                    ('token', models.CharField(default='', help_text='Name of the token, if one was sent.', max_length=100)),
                    ('action', models.CharField(max_length=40)),
                    ('kind', models.CharField(max_length=40)),
                    ('object_id', models.TextField(default='')),
                    ('app', models.TextField(default='')),
                    ('address', models.CharField(default='', help_text='Of the client.', max_length=64)),
                    ('outcome', models.CharField(choices=[('done', 'Done'), ('refused', 'Refused'), ('failed', 'Failed')], max_length=16)),
                    ('status', models.SmallIntegerField(help_text='HTTP status of the response.')),
                ],
                options={
                    'indexes': [models.Index(fields=['at', 'id'], name='audit_by_time'), models.Index(fields=['person', 'at'], name='audit_by_person')],
                },
            ),
            migrations.CreateModel(
                name='Login',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='logins', to=settings.AUTH_USER_MODEL)),
                    ('digest', models.CharField(max_length=64, unique=True)),
                    ('password_mark', models.CharField(help_text='Of the password: a new one ends the login.', max_length=64)),
                    ('expires_at', models.FloatField()),
                ],
            ),
            migrations.CreateModel(
                name='Membership',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                    ('app', models.TextField(blank=True, default='')),
                    ('role', models.SmallIntegerField(choices=[(1, 'reader'), (2, 'runner'), (3, 'admin')])),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('user', 'app'), name='one_role_per_app')],
                },
            ),
            migrations.CreateModel(
                name='OidcAccount',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='oidc_accounts', to=settings.AUTH_USER_MODEL)),
                    ('issuer', models.TextField()),
                    ('subject', models.CharField(help_text="The provider's unchanging id of the person.", max_length=255)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='one_user_per_oidc_account'), models.UniqueConstraint(fields=('user', 'issuer'), name='one_oidc_account_per_issuer')],
                },
            ),
            migrations.CreateModel(
                name='Quota',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('person', models.CharField(blank=True, default='', help_text='Name; empty: every user.', max_length=150)),
                    ('app', models.TextField(blank=True, default='')),
                    ('runs_at_once', models.IntegerField(null=True)),
                    ('runs_a_day', models.IntegerField(null=True)),
                    ('tokens_a_day', models.BigIntegerField(null=True)),
                    ('cost_a_day', models.FloatField(help_text='In the currency of the price table.', null=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('person', 'app'), name='quota_of_person_and_app')],
                },
            ),
            migrations.CreateModel(
                name='Token',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to=settings.AUTH_USER_MODEL)),
                    ('name', models.CharField(max_length=100)),
                    ('digest', models.CharField(max_length=64, unique=True)),
                    ('role', models.SmallIntegerField(choices=[(1, 'reader'), (2, 'runner'), (3, 'admin')], help_text='The most that it may do; never more than its user.')),
                    ('created_at', models.FloatField()),
                    ('expires_at', models.FloatField(null=True)),
                    ('last_used_at', models.FloatField(help_text='To the minute.', null=True)),
                    ('creator', models.ForeignKey(help_text='The token that created it, and is revoked with it.', null=True, on_delete=django.db.models.deletion.CASCADE, to='accounts.token')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('user', 'name'), name='token_name_of_user')],
                },
            ),
        ),
        migrations.RunPython(create_triggers, drop_triggers),
    ]
