import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0006_own_limits"),
    ]

    operations = [
        migrations.AddField(
            model_name="token",
            name="creator",
            field=models.ForeignKey(
                help_text="The token that created it, and is revoked with it.",
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="accounts.token",
            ),
        ),
    ]
