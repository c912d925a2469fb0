"""Tables of users' roles and logins. The users themselves are Django's.

Times are float seconds since the epoch, as in the other tables.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import models

from devui.accounts.roles import Role


class Membership(models.Model):
    """The role of a user in one app, or in all of them if `app` is empty."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    app = models.TextField(default="", blank=True)
    role = models.SmallIntegerField(choices=Role.choices)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "app"], name="one_role_per_app")]


class Login(models.Model):
    """A browser that has signed in. Its cookie is random; only the SHA-256 of it is stored.

    Deleting the row ends the login in every web process.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="logins")
    digest = models.CharField(max_length=64, unique=True)
    password_mark = models.CharField(max_length=64, help_text="Of the password: a new one ends the login.")
    expires_at = models.FloatField()
