"""`manage.py login`: set up the login."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from devui.management.passwords import read_password
from sessions_app.sessions import storage_location
from sessions_app.store.database import db_errors
from sessions_app.store.database.schema import ensure_schema
from sessions_app.store.errors import BadInput, DevUIError


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
        from devui.accounts import login_file

        try:
            _refuse_temporary_store()
            ensure_schema()
            if options["remove"]:
                self._remove_login()
            elif options["token"]:
                self._make_token()
            else:
                self._set_password()
            login_file.remove_file()
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}".strip(), returncode=2) from error
        except OSError as error:
            raise CommandError(
                f"{str(login_file.login_file())!r} cannot be removed: {error.strerror}.", returncode=2
            ) from error

    def _set_password(self) -> None:
        from devui.accounts import login_file, owner, users

        password = read_password()
        generated = "" if password else users.generate_password()
        with suppress(login_file.LoginUnreadable):  # its token is lost with it
            login_file.import_file()
        owner.set_password(password or generated)
        if generated:
            self.stdout.write(f"Password: {generated}")
        now = (
            "Users sign in as before, until DEVUI_USERS is off."
            if settings.DEVUI_USERS
            else "DevUI now requires it."
        )
        self.stdout.write(
            f"{now} Its hash is in the store {db_errors.current_store_name()!r}. Earlier logins have ended."
        )

    def _make_token(self) -> None:
        from devui.accounts import login_file, owner

        login_file.import_file()
        token = owner.replace_token()
        self.stdout.write(f"Authorization: Bearer {token}")
        self.stdout.write("It is shown only once. A previous token is no longer valid.")

    def _remove_login(self) -> None:
        from devui.accounts import login_file, owner

        existed = owner.remove_owner() or login_file.login_file().exists()
        if not existed:
            self.stdout.write("There is no login.")
        elif settings.DEVUI_USERS:
            self.stdout.write("The owner's token is no longer valid. Users sign in as before.")
        else:
            self.stdout.write("DevUI no longer requires a login.")


def _refuse_temporary_store() -> None:
    if not storage_location.store_location().survives_restart:
        raise BadInput(
            "The store is temporary: the login would be lost when this command ends.",
            hint="Set DATABASE_URL to the store of the server.",
        )
