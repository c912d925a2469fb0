"""Roles of users, and rules: the role that a request needs, and what the audit log shows for it.

Routes declare a rule for each method; see `sessions_app.routes`. Rules that several routes share are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.db import models


class Role(models.IntegerChoices):
    """The permissions of a user. Each role includes those before it."""

    READER = 1, "reader"
    RUNNER = 2, "runner"
    ADMIN = 3, "admin"

    @classmethod
    def of(cls, name: str) -> Role:
        """Return the role of this name.

        Raises:
            KeyError: there is no such role.
        """
        return cls[name.upper()]


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The role that a request needs, and the action that the audit log shows for it.

    Attributes:
        role: the least role that may send it.
        action: what it does; empty if it only reads.
        kind: the kind of object that it does this to.
        form_field: a field of its form. Its value, up to a colon, selects one of `variants`; `*` is any value.
        app_field: the field of form, JSON body or query that names the app, or a session of it, if the path does not.
        target_app_field: the field that names a second app, in which the request creates an object.
        is_public: whether it needs no login.
    """

    role: Role
    action: str = ""
    kind: str = ""
    form_field: str = ""
    variants: Mapping[str, AccessRule] = field(default_factory=dict)
    app_field: str = ""
    target_app_field: str = ""
    is_public: bool = False

    def select_variant(self, form: Mapping[str, str]) -> AccessRule:
        """Return the rule of a request with this form."""
        value = form.get(self.form_field, "") if self.form_field else ""
        variant = self.variants.get(value.partition(":")[0]) or (self.variants.get("*") if value else None)
        return variant or self

    def with_app_field(self, name: str) -> AccessRule:
        """Return the rule of a request whose field `name` names the app."""
        return replace(self, app_field=name)

    def with_target_app_field(self, name: str) -> AccessRule:
        """Return the rule of a request whose field `name` names the app in which it creates an object."""
        return replace(self, target_app_field=name)


PUBLIC = AccessRule(Role.READER, is_public=True)
SIGN_IN = AccessRule(Role.READER, "sign-in", "user", is_public=True)
SIGN_OUT = AccessRule(Role.READER, "sign-out", "user")
READ = AccessRule(Role.READER)
RUN = AccessRule(Role.RUNNER, "run", "session")
SEND_TRACES = AccessRule(Role.RUNNER)
"""No entry in the audit log: exporters send every few seconds, and each span says which program sent it."""

CALL_TOOL = AccessRule(Role.RUNNER, "run", "tool")
EDIT = AccessRule(Role.RUNNER, "edit", "session")
CREATE = AccessRule(Role.RUNNER, "create", "session")
CANCEL = AccessRule(Role.RUNNER, "cancel", "run")
DECIDE = AccessRule(Role.RUNNER, "decide", "pause")
EDIT_STATE = AccessRule(Role.RUNNER, "edit", "state")
LABEL = AccessRule(Role.RUNNER, "label", "session")
EDIT_SAVED_VIEW = AccessRule(Role.RUNNER, "edit", "saved view")
UPLOAD = AccessRule(Role.RUNNER, "create", "artifact")
REMEMBER = AccessRule(Role.RUNNER, "create", "memory")
DELETE = AccessRule(Role.ADMIN, "delete", "session")
DELETE_ARTIFACT = AccessRule(Role.ADMIN, "delete", "artifact")
DELETE_MEMORY = AccessRule(Role.ADMIN, "delete", "memory")
RESTORE = AccessRule(Role.ADMIN, "restore", "session")
IMPORT = AccessRule(Role.ADMIN, "import", "session")
RESTART = AccessRule(Role.RUNNER, "restart", "app")
CHANGE_SETTINGS = AccessRule(Role.ADMIN, "settings", "app")
EXPORT = AccessRule(Role.READER, "export", "session")
SESSION_ACTION = AccessRule(
    Role.READER,
    form_field="action",
    variants={
        **dict.fromkeys(("tag", "untag", "pin", "unpin"), LABEL),
        "export": EXPORT,
        "*": DELETE,
    },
)
