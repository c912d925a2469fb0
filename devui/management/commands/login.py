"""`manage.py login`: set up the login."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devui.management.passwords import read_password
from devui.web.login import credentials_file
from sessions_app.store.errors import DevUIError


class Command(BaseCommand):
    """Set the password, create a token for programs, or remove both. Running servers apply it at once."""

    help = (
        "Set or replace the password of DevUI. It is read from the terminal, or from the first line of standard input;"
        " an empty one is generated and shown."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options for other actions than setting the password."""
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--token", action="store_true", help="Create or replace the token for programs.")
        what.add_argument(
            "--remove", action="store_true", help="Remove the login: DevUI no longer requires one."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the action. Errors are shown in one line, with exit status 2."""
        try:
            if options["remove"]:
                self._remove_login()
            elif options["token"]:
                self._make_token()
            else:
                self._set_password()
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}".strip(), returncode=2) from error
        except OSError as error:
            raise CommandError(
                f"{str(credentials_file.login_file())!r} cannot be written: {error.strerror}.", returncode=2
            ) from error

    def _set_password(self) -> None:
        password = read_password(credentials_file.MIN_PASSWORD)
        made_up = "" if password else credentials_file.generate_password()
        credentials_file.set_password(password or made_up)
        if made_up:
            self.stdout.write(f"Password: {made_up}")
        self.stdout.write(
            f"DevUI now requires it. Its hash is in {credentials_file.login_file()}. Earlier logins have ended."
        )

    def _make_token(self) -> None:
        token = credentials_file.replace_token()
        self.stdout.write(f"Authorization: Bearer {token}")
        self.stdout.write("It is shown only once. A previous token is no longer valid.")

    def _remove_login(self) -> None:
        existed = credentials_file.remove_login()
        self.stdout.write("DevUI no longer requires a login." if existed else "There is no login.")
