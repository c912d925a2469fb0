"""`manage.py purge_sessions`: permanently remove old or expired sessions."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.management.output import Progress, write_lines
from sessions_app.sessions.purge import PurgeFilter, PurgeReport, purge
from sessions_app.store import durations
from sessions_app.store.database import db_errors
from sessions_app.store.database.schema import ensure_schema
from sessions_app.store.errors import BadInput, DevUIError

INCOMPLETE, COULD_NOT = 1, 2


class Command(BaseCommand):
    """Exits with 0 if all matching sessions were removed, 1 if some were skipped, 2 if the store cannot be used."""

    help = (
        "Permanently remove old or expired sessions with their events, state and artifacts, in small batches. "
        "User and app state and memory are kept. Safe while agents run: sessions with an active run are skipped."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments; underscores work for hyphens, as in ADK's own commands."""
        add = parser.add_argument
        add(
            "--older-than",
            "--older_than",
            type=_parse_span,
            metavar="SPAN",
            help="only sessions whose last event is older: 30d, 12h, 90m",
        )
        add("--expired", action="store_true", help="only sessions older than their app's TTL")
        add("--app", help="only sessions of this app")
        add(
            "--to-memory",
            "--to_memory",
            action="store_true",
            help="add each session's messages to the user's memory first",
        )
        add(
            "--dry-run",
            "--dry_run",
            action="store_true",
            help="show what would be removed without removing it",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Remove the matching sessions.

        Raises:
            CommandError: neither `--older-than` nor `--expired` is given, or the store cannot be used.
            SystemExit: some sessions were skipped.
        """
        if options["older_than"] is None and not options["expired"]:
            raise CommandError(
                "No sessions selected. Pass --older-than SPAN, such as 30d, or --expired.",
                returncode=COULD_NOT,
            )
        selection = PurgeFilter(options["older_than"], options["expired"], options["app"])
        try:
            with db_errors.translate_db_errors():
                ensure_schema()
                report = self._purge_selection(selection, options)
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}", returncode=COULD_NOT) from error
        except KeyboardInterrupt:
            self.stderr.write("Stopped. Removed sessions stay removed; run the command again to continue.")
            sys.exit(130)
        self._print_report(report, to_memory=options["to_memory"])
        if report.skipped:
            sys.exit(INCOMPLETE)

    def _purge_selection(self, selection: PurgeFilter, options: dict[str, Any]) -> PurgeReport:
        to_memory = None
        if options["to_memory"] and not options["dry_run"]:
            from sessions_app.adk import memory

            to_memory = memory.remember
        progress = Progress(self.stderr)
        return purge(
            selection,
            remember=to_memory,
            dry_run=options["dry_run"],
            progress=lambda done, total: progress.show(f"{done:,} of {total:,} sessions"),
        )

    def _print_report(self, report: PurgeReport, *, to_memory: bool) -> None:
        write = self.stdout.write
        verb = "would be removed" if report.dry_run else "removed"
        write(f"{report.sessions} session(s) with {report.events} event(s) {verb}.")
        if report.dry_run:
            write_lines(self.stdout, report.names, len(report.names))
        else:
            write(f"{report.artifacts} artifact(s) and {report.files} file(s) removed with them.")
            if to_memory:
                write(f"{report.memories} memories were added.")
            if report.finished:
                write(
                    f"{report.finished} session(s) that an interrupted purge had left behind were removed, too."
                )
        if report.copies:
            write(
                f"{report.copies} of them are copies of sessions that one of ADK's services keeps: those are not"
                " touched, and their copies come back when it is read. DELETE on ADK's own paths removes both."
            )
        if report.skipped:
            write(f"Skipped ({len(report.skipped)}):")
            write_lines(self.stdout, report.skipped, len(report.skipped))


def _parse_span(text: str) -> float:
    try:
        return durations.parse(text)
    except BadInput as error:
        raise ArgumentTypeError(f"{error.message} {error.hint}") from None
