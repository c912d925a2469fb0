"""`manage.py changeuser NAME`: change, disable or enable a user."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from devui.management.passwords import read_password
from devui.management.user_command import CHANGES, UserCommand


class Command(UserCommand):
    """Change a user, with DEVUI_USERS=1. Running servers apply it at once."""

    help = "Change the role or the password of a user, or disable or enable the user."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the name and what to change."""
        parser.add_argument("name", metavar="NAME")
        self.add_role_argument(parser, required=False)
        parser.add_argument("--password", action="store_true", help="Set a new password, as createuser does.")
        parser.add_argument(
            "--unlink",
            action="store_true",
            help="End the link to the account at the OpenID Connect provider, and the user's logins.",
        )
        access = parser.add_mutually_exclusive_group()
        access.add_argument(
            "--disable", action="store_true", help="End the user's logins and allow no new one."
        )
        access.add_argument("--enable", action="store_true", help="Let the user sign in again.")

    def change_users(self, options: dict[str, Any]) -> None:
        """Change the user.

        Raises:
            CommandError: nothing is to be changed.
        """
        from devui.accounts import users
        from sessions_app.roles import Role

        if not any(options[name] for name in CHANGES):
            raise CommandError(
                "Nothing to change: use --role, --password, --unlink, --disable or --enable.", returncode=2
            )
        user = users.find_user(options["name"])
        if options["role"]:
            users.set_role(user, Role.of(options["role"]), options["app"])
            self.stdout.write(f"{user.username} has the role {options['role']} now{self.where(options)}.")
        if options["password"]:
            typed = read_password()
            password = users.set_password(user, typed)
            if not typed:
                self.stdout.write(f"Password: {password}")
            self.stdout.write(f"{user.username} has a new password. Earlier logins have ended.")
        if options["unlink"]:
            users.unlink_oidc_account(user)
            self.stdout.write(f"{user.username} gets the next account of this name at the provider.")
        if options["disable"] or options["enable"]:
            users.set_active(user, is_active=options["enable"])
            self.stdout.write(f"{user.username} is {'enabled' if options['enable'] else 'disabled'}.")
