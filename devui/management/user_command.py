"""Base of the commands that change users."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from devui.config.single_sign_on import ROLES
from sessions_app.store.database.schema import ensure_schema
from sessions_app.store.errors import DevUIError

CHANGES = ("role", "password", "unlink", "disable", "enable")
"""Options that change a user."""


class UserCommand(BaseCommand):
    """A command that needs DEVUI_USERS=1. Errors are shown in one line, with exit status 2."""

    requires_system_checks = ()
    action, kind = "edit", "user"
    """Action and kind of object of the command's entries in the audit log."""

    def add_role_argument(self, parser: CommandParser, *, required: bool) -> None:
        """Add the option `--role`."""
        parser.add_argument(
            "--role",
            choices=ROLES,
            required=required,
            help="reader: sees everything except users, quotas and the audit log; runner: also runs agents and"
            " evals, and edits; admin: also deletes, imports, and changes settings and users.",
        )
        parser.add_argument(
            "--app",
            action="append",
            default=[],
            help="An app in which the role applies, instead of in every app. Can be repeated.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command.

        Raises:
            CommandError: users are not switched on, or what the command was asked for is refused.
        """
        if not settings.DEVUI_USERS:
            raise CommandError(
                "This server has no users: set DEVUI_USERS=1, for it and for this command. With one password for"
                " everybody: python manage.py login.",
                returncode=2,
            )
        try:
            ensure_schema()
            self.change_users(options)
            self._record_change(options)
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}".strip(), returncode=2) from error

    def where(self, options: dict[str, Any]) -> str:
        """Return the apps that are named, in words."""
        return f" in {', '.join(options['app'])}" if options["app"] else ""

    def _record_change(self, options: dict[str, Any]) -> None:
        from devui.accounts import audit

        if changes := self.describe_changes(options):
            audit.record_command(self.audit_action(options), self.kind, changes)

    def audit_action(self, options: dict[str, Any]) -> str:
        """Return the action for the audit log."""
        return self.action

    def describe_changes(self, options: dict[str, Any]) -> str:
        """Return what the command has changed, for the audit log; empty: nothing."""
        changes = [self._describe_change(name, options) for name in CHANGES if options.get(name)]
        return f"{options['name']}: {', '.join(changes)}"

    def _describe_change(self, name: str, options: dict[str, Any]) -> str:
        """Return a change in words: a role with its apps, else the name of the option."""
        return f"role {options['role']}{self.where(options)}" if name == "role" else name

    def change_users(self, options: dict[str, Any]) -> None:
        """Create or change users. Each command implements it."""
        raise NotImplementedError
