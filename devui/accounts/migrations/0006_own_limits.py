from typing import Any

from django.db import migrations

MAXIMA = {"runs_at_once": 2**31 - 1, "runs_a_day": 2**31 - 1, "tokens_a_day": 2**53, "cost_a_day": 2**53}


def keep_exemptions(apps: Any, schema_editor: Any) -> None:
    """Set limits that cannot be reached where a user's quota without a limit exempted the user from that of everybody.

    Until now a user's quota replaced that of everybody; from now on, only the limits that it sets do.
    """
    Quota = apps.get_model("accounts", "Quota")
    general = {quota.app: quota for quota in Quota.objects.filter(person="")}
    for quota in Quota.objects.exclude(person=""):
        is_exempt = all(getattr(quota, name) is None for name in MAXIMA)
        for name, maximum in MAXIMA.items():
            is_limited = getattr(general.get(quota.app), name, None) is not None
            if getattr(quota, name) is None and (is_exempt or is_limited):
                setattr(quota, name, maximum)
        quota.save()


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_audit_action"),
    ]

    operations = [
        migrations.RunPython(keep_exemptions, migrations.RunPython.noop),
    ]
