"""`manage.py index_events`: update or rebuild the search indexes, and check events for problems."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.management.output import Progress
from sessions_app.problems import session_checks
from sessions_app.search import indexing
from sessions_app.store.database import db_errors
from sessions_app.store.database.schema import ensure_schema
from sessions_app.store.errors import DevUIError

COULD_NOT = 2


class Command(BaseCommand):
    """Exits with 0 if everything is indexed, 2 if the store cannot be used."""

    help = (
        "Index events for search. The web process does this in the background; use this command to index at once "
        "or to rebuild. Safe while agents run; can be interrupted at any time."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "--rebuild", action="store_true", help="delete the indexes first and index everything again"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Index.

        Raises:
            CommandError: the store cannot be used.
        """
        progress = Progress(self.stderr)
        try:
            with db_errors.translate_db_errors():
                ensure_schema()
                if options["rebuild"]:
                    indexing.reset()
                events = indexing.index_all(lambda events: progress.show(f"{events:,} events"))
                session_checks.check_all()
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}", returncode=COULD_NOT) from error
        except KeyboardInterrupt:
            self.stderr.write("Stopped. Indexed events stay indexed; run the command again to continue.")
            sys.exit(130)
        self.stdout.write(f"{events:,} event(s) indexed.")
