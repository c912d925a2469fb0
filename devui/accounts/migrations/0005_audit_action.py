from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0004_quotas'),
    ]

    operations = [
        migrations.RenameField('AuditEntry', 'verb', 'action'),
    ]
