"""Tables of users' roles, logins and tokens, and of the audit log. The users themselves are Django's.

Times are float seconds since the epoch, as in the other tables.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any, NoReturn

from django.contrib.auth.models import User
from django.db import models

from sessions_app.roles import Role
from sessions_app.store.errors import Forbidden

STATUS_WORDS = {
    401: "not signed in",
    403: "not allowed",
    404: "not found",
    409: "conflict with another change",
    422: "invalid input",
    429: "too many requests",
    503: "unavailable",
}
"""HTTP statuses of requests that did not succeed, in words."""


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


class OidcAccount(models.Model):
    """The account of a user at an OpenID Connect provider."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="oidc_accounts")
    issuer = models.TextField()
    subject = models.CharField(max_length=255, help_text="The provider's unchanging id of the person.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="one_user_per_oidc_account"),
            models.UniqueConstraint(fields=["user", "issuer"], name="one_oidc_account_per_issuer"),
        ]


class Token(models.Model):
    """A secret that a program of a user sends. Only the SHA-256 of it is stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    role = models.SmallIntegerField(
        choices=Role.choices, help_text="The most that it may do; never more than its user."
    )
    created_at = models.FloatField()
    expires_at = models.FloatField(null=True)
    last_used_at = models.FloatField(null=True, help_text="To the minute.")
    creator = models.ForeignKey(
        "self",
        on_delete=models.CASCADE,
        null=True,
        help_text="The token that created it, and is revoked with it.",
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="token_name_of_user")]

    @property
    def is_expired(self) -> bool:
        """Tell whether the token has expired."""
        return self.expires_at is not None and self.expires_at < time.time()


class Quota(models.Model):
    """Limits of the runs of each user, in one app or, with an empty `app`, in all apps together. Null: no limit.

    The limits that the row of a user sets replace those of the row of everybody with the same app.
    """

    person = models.CharField(max_length=150, default="", blank=True, help_text="Name; empty: every user.")
    app = models.TextField(default="", blank=True)
    runs_at_once = models.IntegerField(null=True)
    runs_a_day = models.IntegerField(null=True)
    tokens_a_day = models.BigIntegerField(null=True)
    cost_a_day = models.FloatField(null=True, help_text="In the currency of the price table.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["person", "app"], name="quota_of_person_and_app")]


class AuditEntries(models.QuerySet["AuditEntry"]):
    """Entries of the audit log, which are neither changed nor deleted."""

    def update(self, **values: Any) -> NoReturn:
        """Refuse.

        Raises:
            Forbidden: always.
        """
        raise _append_only()

    def delete(self) -> NoReturn:
        """Refuse.

        Raises:
            Forbidden: always.
        """
        raise _append_only()


class AuditEntry(models.Model):
    """An entry of the audit log. It stores the names of users and objects, which may be deleted later."""

    class Outcome(models.TextChoices):
        """The outcome of a request."""

        DONE = "done"
        REFUSED = "refused"
        FAILED = "failed"

    at = models.FloatField()
    person = models.CharField(max_length=200)
    token = models.CharField(max_length=100, default="", help_text="Name of the token, if one was sent.")
    action = models.CharField(max_length=40)
    kind = models.CharField(max_length=40)
    object_id = models.TextField(default="")
    app = models.TextField(default="")
    address = models.CharField(max_length=64, default="", help_text="Of the client.")
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    status = models.SmallIntegerField(help_text="HTTP status of the response.")

    objects = AuditEntries.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["at", "id"], name="audit_by_time"),
            models.Index(fields=["person", "at"], name="audit_by_person"),
        ]

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Add the entry.

        Raises:
            Forbidden: it is stored already.
        """
        if not self._state.adding:
            raise _append_only()
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse.

        Raises:
            Forbidden: always.
        """
        raise _append_only()

    @property
    def reason(self) -> str:
        """The HTTP status of an entry that is not done, in words.

        422 of a refused entry is a sign-in with a wrong name or password.
        """
        if self.outcome == self.Outcome.REFUSED and self.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            return "wrong name or password"
        return STATUS_WORDS.get(self.status, "server error" if self.status >= 500 else "invalid request")


def _append_only() -> Forbidden:
    return Forbidden("The audit log is append-only.", hint="Export it to keep a part of it elsewhere.")
