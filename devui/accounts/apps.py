"""Django's app configuration."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """App with the tables of roles, logins, tokens and the audit log."""

    name = "devui.accounts"
    label = "accounts"
    verbose_name = "Accounts"

    def ready(self) -> None:
        """Register the quotas of users, which runs are checked against."""
        from devui.accounts.quotas import find_limits
        from sessions_app.quotas.quota_enforcement import register_limit_finder

        register_limit_finder(find_limits)
