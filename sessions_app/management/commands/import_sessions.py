"""`manage.py import_sessions SOURCE`: import sessions and artifacts from stores and exports of ADK and DevUI."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentTypeError
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.management.arguments import parse_location
from sessions_app.management.output import Progress, write_lines
from sessions_app.store.database.schema import ensure_schema
from sessions_app.store.errors import DevUIError
from sessions_app.transfer.readers.detection import fingerprint
from sessions_app.transfer.readers.records import SourceFilter
from sessions_app.transfer.writers import ImportReport, import_location

INCOMPLETE, COULD_NOT_READ = 1, 2
FOLLOW_S = 2.0


class Command(BaseCommand):
    """Exits with 0 if everything was imported, 1 if something was skipped, 2 if the source is unreadable."""

    help = (
        "Import sessions from ADK stores (file, folder or URL), session JSON or DevUI exports. "
        "The source is only read."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments; underscores work for hyphens, as in ADK's own commands."""
        add = parser.add_argument
        add(
            "source",
            type=parse_location,
            metavar="SOURCE",
            help="a file, an agent's folder, or a sqlite:///, postgresql:// or mysql:// URL",
        )
        add("--app", help="only sessions of this app")
        add("--user", help="only sessions of this user")
        add(
            "--dry-run",
            "--dry_run",
            action="store_true",
            help="show what would be imported without importing",
        )
        add("--follow", action="store_true", help="keep importing changes of a live store until Ctrl-C")
        add(
            "--timezone",
            type=_parse_zone,
            default=ZoneInfo("UTC"),
            metavar="ZONE",
            help="time zone of event times in an old (v0) store, such as Europe/Berlin",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Import once or, with `--follow`, whenever the source changes.

        Raises:
            CommandError: the source cannot be read.
            SystemExit: something was not imported.
        """
        try:
            ensure_schema()
            report = self._import_source(options)
            self._print_report(report)
            if options["follow"]:
                self._follow_source(options)
        except DevUIError as error:
            raise CommandError(f"{error.message}\n{error.hint}", returncode=COULD_NOT_READ) from error
        except KeyboardInterrupt:
            self.stderr.write("Stopped. Run the command again to continue.")
            sys.exit(130)
        if not report.is_complete:
            sys.exit(INCOMPLETE)

    def _import_source(self, options: dict[str, Any]) -> ImportReport:
        progress = Progress(self.stderr)
        return import_location(
            options["source"],
            source_filter=SourceFilter(options["app"], options["user"]),
            zone=options["timezone"],
            dry_run=options["dry_run"],
            progress=lambda done: progress.show(f"{done:,} events"),
        )

    def _follow_source(self, options: dict[str, Any]) -> None:
        self.stdout.write("Following. Ctrl-C ends it.")
        last_fingerprint = ""
        while True:
            pause()
            new_fingerprint = fingerprint(options["source"])
            if new_fingerprint and new_fingerprint == last_fingerprint:
                continue
            report, last_fingerprint = self._import_source(options), new_fingerprint
            if report.events or report.created or report.artifacts or report.eval_runs:
                self._print_report(report)

    def _print_report(self, report: ImportReport) -> None:
        write = self.stdout.write
        write(f"{report.location}: {report.format}")
        write(f"{report.counts()}.")
        for heading, lines in report.sections():
            write(f"{heading} ({lines.total}):")
            write_lines(self.stdout, lines.lines, lines.total)


def pause() -> None:
    """Wait until the next check of a live store."""
    time.sleep(FOLLOW_S)


def _parse_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ArgumentTypeError(f"{name!r} is not a time zone; use a name such as Europe/Berlin") from None
