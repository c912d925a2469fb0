"""Django's app configuration."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """App with the tables of users' roles and logins."""

    name = "devui.accounts"
    label = "accounts"
    verbose_name = "Accounts"
