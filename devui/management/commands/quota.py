"""`manage.py quota`: show, set and remove the quotas of users."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from devui.management.user_command import UserCommand


class Command(UserCommand):
    """Show or change quotas, with DEVUI_USERS=1. Running servers apply them at once."""

    help = (
        "Limit the runs of each user. Without a name the quota applies to every user; the limits of a user's own quota"
        " replace these. Without limits all quotas are shown. A day begins at 00:00 UTC."
    )
    action, kind = "edit", "quota"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the user, the app and the limits."""
        parser.add_argument("name", metavar="NAME", nargs="?", default="", help="User; default: every user.")
        parser.add_argument("--app", default="", help="App; default: all apps together.")
        for option, metavar, what in (
            ("--runs-at-once", "N", "runs and eval runs that are active at once"),
            ("--runs-a-day", "N", "runs and eval runs a day"),
            ("--tokens-a-day", "N", "tokens a day"),
            ("--cost-a-day", "AMOUNT", "cost a day, in the currency of prices.toml"),
        ):
            parser.add_argument(option, metavar=metavar, help=f"Maximum of {what}; none: remove this limit.")
        parser.add_argument("--remove", action="store_true", help="Remove the quota of this user and app.")

    def change_users(self, options: dict[str, Any]) -> None:
        """Show, change or remove quotas.

        Raises:
            CommandError: a limit is not a number.
        """
        from devui.accounts import quotas

        person, app = options["name"], options["app"]
        limits = {
            name: _parse_limit(name, options[name]) for name in quotas.LIMITS if options[name] is not None
        }
        if options["remove"]:
            quotas.remove_quota(person, app)
        elif limits:
            quotas.set_quota(person, app, limits)
        for quota in quotas.list_quotas():
            self.stdout.write(f"{quotas.describe(quota.person, quota.app)}: {quotas.describe_limits(quota)}")

    def describe_changes(self, options: dict[str, Any]) -> str:
        """Return the change for the audit log; empty if quotas are only shown."""
        from devui.accounts import quotas

        limits = {name: options[name] for name in quotas.LIMITS if options[name] is not None}
        if not limits and not options["remove"]:
            return ""
        return quotas.describe_change(options["name"], options["app"], None if options["remove"] else limits)


def _parse_limit(name: str, text: str) -> float | int | None:
    """Return a limit; None for `none`."""
    if text.lower() == "none":
        return None
    try:
        return float(text) if name == "cost_a_day" else int(text)
    except ValueError as error:
        option = f"--{name.replace('_', '-')}"
        raise CommandError(f"{option} is {text!r}, which is not a number.", returncode=2) from error
