"""Django's app configuration."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    """App with the tables of roles, logins, tokens and the audit log, with users or without."""

    name = "devui.accounts"
    label = "accounts"
    verbose_name = "Accounts"

    def ready(self) -> None:
        """Register the quotas of users, which runs are checked against, and leave out Django's permissions."""
        from django.contrib.contenttypes.management import create_contenttypes

        from devui.accounts.quotas import find_limits
        from sessions_app.quotas.quota_enforcement import register_limit_finder

        register_limit_finder(find_limits)
        post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
        post_migrate.disconnect(create_contenttypes)
