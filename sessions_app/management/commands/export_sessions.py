"""`manage.py export_sessions`: export sessions for another store or for `adk web`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.management.arguments import parse_path
from sessions_app.store.database.schema import ensure_schema
from sessions_app.store.errors import DevUIError
from sessions_app.transfer.exports import ExportFilter, export_adk_sqlite, export_json

FORMATS = {"json": export_json, "adk-sqlite": export_adk_sqlite}


class Command(BaseCommand):
    """Writes a new file; refuses to overwrite an existing one."""

    help = "Export sessions with their events and state to a file."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments; underscores work for hyphens, as in ADK's own commands."""
        add = parser.add_argument
        add("--app", default="", help="only sessions of this app")
        add("--user", default="", help="only sessions of this user")
        add("--session", default="", help="only the session with this id")
        add(
            "--format",
            choices=FORMATS,
            default="json",
            help="json: lossless, for import_sessions; adk-sqlite: a store that `adk web` opens",
        )
        add("--output", type=parse_path, required=True, metavar="PATH", help="file to write; must not exist")
        add(
            "--with-credentials",
            "--with_credentials",
            action="store_true",
            help="include credentials that agents stored; by default they are left out",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Export.

        Raises:
            CommandError: no session matches, or the file cannot be written.
        """
        selection = ExportFilter(options["app"], options["user"], options["session"])
        try:
            ensure_schema()
            export = FORMATS[options["format"]]
            result = export(selection, options["output"], credentials=options["with_credentials"])
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}", returncode=2) from error
        self.stdout.write(f"{result.sessions} session(s), {result.events} event(s) in {options['output']}")
