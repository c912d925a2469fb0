"""Django's app configuration."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """App with the tables of roles, logins, tokens and the audit log."""

    name = "devui.accounts"
    label = "accounts"
    verbose_name = "Accounts"

    def ready(self) -> None:
        """Let runs find the limits of their person."""
        from devui.accounts.quotas import find_limits
        from sessions_app.runs.quotas import register_limits

        register_limits(find_limits)
