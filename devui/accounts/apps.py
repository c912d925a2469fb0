"""Django's app configuration."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """App with the tables of roles, logins, tokens and the audit log."""

    name = "devui.accounts"
    label = "accounts"
    verbose_name = "Accounts"
