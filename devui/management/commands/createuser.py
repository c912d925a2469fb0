"""`manage.py createuser NAME --role ROLE`: create a user."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from devui.management.passwords import read_password
from devui.management.user_command import UserCommand


class Command(UserCommand):
    """Create a user, with DEVUI_USERS=1."""

    help = (
        "Create a user. The password is read from the terminal, or from the first line of standard input;"
        " an empty one is generated and shown."
    )

    action = "create"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the name and the role."""
        parser.add_argument("name", metavar="NAME")
        self.add_role_argument(parser, required=True)

    def change_users(self, options: dict[str, Any]) -> None:
        """Create the user."""
        from devui.accounts import users
        from sessions_app.roles import Role

        typed = read_password()
        password = users.create_user(options["name"], Role.of(options["role"]), typed, options["app"])
        if not typed:
            self.stdout.write(f"Password: {password}")
        self.stdout.write(f"{options['name']} can sign in now. Role: {options['role']}{self.where(options)}.")
