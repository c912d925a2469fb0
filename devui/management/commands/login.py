"""`manage.py login`: set up what DevUI asks for before it lets anybody in."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devui.web.login import credentials_file
from sessions_app.errors import DevUIError


class Command(BaseCommand):
    """Set the password, make a token for programs, or take both away. Running servers heed it at once."""

    help = (
        "Set the password that DevUI asks for, in place of any other. It is read from the terminal, else from the"
        " first line of the standard input; an empty one is made up and shown."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what is to be done, if not setting the password."""
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--token", action="store_true", help="Make a new token for programs, in place of any other."
        )
        what.add_argument(
            "--remove", action="store_true", help="Take the login away: nobody is asked any more."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it. What stands in the way is said in one line, with exit status 2."""
        try:
            if options["remove"]:
                self._remove()
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
        password = self._prompt_password() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
        made_up = "" if password else credentials_file.generate_password()
        credentials_file.set_password(password or made_up)
        if made_up:
            self.stdout.write(f"Password: {made_up}")
        self.stdout.write(
            f"DevUI asks for it from now on. Its hash is in {credentials_file.login_file()}. Earlier logins have ended."
        )

    def _make_token(self) -> None:
        token = credentials_file.replace_token()
        self.stdout.write(f"Authorization: Bearer {token}")
        self.stdout.write("It is shown this once. The token before it, if any, has ended.")

    def _remove(self) -> None:
        existed = credentials_file.remove_login()
        self.stdout.write("DevUI asks nobody any more." if existed else "There is no login.")

    def _prompt_password(self) -> str:
        """Return what was typed, twice the same.

        Raises:
            CommandError: it was not.
        """
        password = getpass.getpass(
            f"Password ({credentials_file.MIN_PASSWORD} characters or more; empty: one is made up): "
        )
        if password and getpass.getpass("Once more: ") != password:
            raise CommandError("These were two different passwords: nothing was changed.", returncode=2)
        return password
