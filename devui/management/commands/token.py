"""`manage.py token NAME`: list, create and revoke the tokens of a user."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandParser

from devui.config.single_sign_on import ROLES
from devui.management.user_command import UserCommand
from sessions_app.store.errors import BadInput

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from devui.accounts.models import Token
    from sessions_app.roles import Role

MAX_NAME = 100
MAX_DAYS = 3650


class Command(UserCommand):
    """List, create and revoke tokens, with DEVUI_USERS=1."""

    help = "List the tokens of a user, create one for a program, or revoke one."
    kind = "token"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the user and the action."""
        parser.add_argument("name", metavar="NAME", help="The user.")
        action = parser.add_mutually_exclusive_group()
        action.add_argument(
            "--create", metavar="TOKEN", help="Create a token of this name, and show it once."
        )
        action.add_argument("--revoke", metavar="TOKEN", help="Revoke the token of this name.")
        parser.add_argument(
            "--role", choices=ROLES, help="The most that it may do. Default: the role of the user."
        )
        parser.add_argument(
            "--days", type=int, default=90, help="Days until it expires; 0: never. Default: %(default)s."
        )

    def change_users(self, options: dict[str, Any]) -> None:
        """List, create or revoke tokens.

        Raises:
            BadInput: the name, the role or the days are not acceptable.
        """
        from devui.accounts import personal_tokens, users

        user = users.find_user(options["name"])
        if options["create"]:
            role = _role_for(user, options["role"])
            options["role"] = role.label  # for the audit log
            text, _ = personal_tokens.create_token(
                user, _checked_name(options["create"]), role, _parse_days(options["days"])
            )
            self.stdout.write(f"Token: {text}\nIt is not shown again. Role: {role.label}.")
        elif options["revoke"]:
            personal_tokens.revoke_token(user, personal_tokens.find_token_by_name(user, options["revoke"]).pk)
            self.stdout.write(f"{options['revoke']} is revoked.")
        else:
            for token in (rows := personal_tokens.list_tokens(user)):
                self.stdout.write(_describe_token(token))
            if not rows:
                self.stdout.write(f"{user.username} has no tokens.")

    def audit_action(self, options: dict[str, Any]) -> str:
        """Return the action for the audit log."""
        return "create" if options["create"] else "revoke"

    def describe_changes(self, options: dict[str, Any]) -> str:
        """Return the change for the audit log; empty if tokens are only listed."""
        if options["create"]:
            return f"{options['name']}: {options['create']}, role {options['role']}"
        return f"{options['name']}: {options['revoke']}" if options["revoke"] else ""


def _role_for(user: User, name: str | None) -> Role:
    """Return the role of a new token: the named one, or the highest of its user.

    Raises:
        BadInput: it exceeds the user's.
    """
    from devui.accounts.models import Membership
    from sessions_app.roles import Role

    highest = Role(
        max(Membership.objects.filter(user=user).values_list("role", flat=True), default=Role.READER)
    )
    role = Role.of(name) if name else highest
    if role > highest:
        raise BadInput(
            f"A token cannot have the role {role.label}.",
            hint=f"The role of {user.username} is {highest.label}.",
        )
    return role


def _checked_name(name: str) -> str:
    if len(name) > MAX_NAME:
        raise BadInput(f"The name has {len(name)} characters; at most {MAX_NAME} characters are allowed.")
    return name


def _parse_days(days: int) -> int | None:
    """Return the days until a token expires; None: never."""
    if not 0 <= days <= MAX_DAYS:
        raise BadInput(f"--days is {days}, which is not from 0 to {MAX_DAYS:,}.")
    return days or None


def _describe_token(token: Token) -> str:
    """Return a token in one line, without its secret."""
    expiry = "never expires"
    if token.expires_at is not None:
        expiry = f"{'expired' if token.is_expired else 'expires'} {_format_date(token.expires_at)}"
    use = "never used" if token.last_used_at is None else f"last used {_format_date(token.last_used_at)}"
    return f"{token.name}: {token.get_role_display()}, {expiry}, {use}"


def _format_date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
