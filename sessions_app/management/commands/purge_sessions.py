"""`manage.py purge_sessions`: remove old or expired sessions for good, while agents run."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.errors import BadInput, DevUIError
from sessions_app.presentation import durations, visible_text
from sessions_app.sessions.purge import PurgeFilter, PurgeReport, purge
from sessions_app.store import db_errors
from sessions_app.store.schema import ensure_schema

INCOMPLETE, COULD_NOT = 1, 2
PROGRESS_S = 0.5
MOST_LINES = 50


class Command(BaseCommand):
    """Exits 0 when everything that was due is gone, 1 when something was left alone, 2 when nothing could be done."""

    help = (
        "Remove sessions without an event for a while, with their events, state and artifacts, in small batches. "
        "User and app state and memory stay. Safe while agents run: sessions with an active run are left alone."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments; underscores work for hyphens, as in ADK's own commands."""
        add = parser.add_argument
        add(
            "--older-than",
            "--older_than",
            type=_span,
            metavar="SPAN",
            help="only sessions whose last event is older: 30d, 12h, 90m",
        )
        add("--expired", action="store_true", help="only sessions that have outlived their app's TTL")
        add("--app", help="only sessions of this app")
        add(
            "--to-memory",
            "--to_memory",
            action="store_true",
            help="first hand what was said over to the user's memory, where agents find it",
        )
        add("--dry-run", "--dry_run", action="store_true", help="only say what would be removed")

    def handle(self, *args: Any, **options: Any) -> None:
        """Remove what is due.

        Raises:
            CommandError: nothing says which sessions are meant, or the store cannot be used.
            SystemExit: something was left alone.
        """
        self._told = 0.0
        if options["older_than"] is None and not options["expired"]:
            raise CommandError(
                "Nothing says which sessions are to go: give --older-than SPAN, such as 30d, or --expired.",
                returncode=COULD_NOT,
            )
        selection = PurgeFilter(options["older_than"], options["expired"], options["app"])
        try:
            with db_errors.translate_db_errors():
                ensure_schema()
                report = self._purge(selection, options)
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}", returncode=COULD_NOT) from error
        except KeyboardInterrupt:
            self.stderr.write("Stopped. What is removed stays removed; run the command again to go on.")
            sys.exit(130)
        self._tell(report, to_memory=options["to_memory"])
        if report.left:
            sys.exit(INCOMPLETE)

    def _purge(self, selection: PurgeFilter, options: dict[str, Any]) -> PurgeReport:
        to_memory = None
        if options["to_memory"] and not options["dry_run"]:
            from sessions_app.adk import memory

            to_memory = memory.remember
        return purge(selection, remember=to_memory, dry_run=options["dry_run"], progress=self._progress)

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self.stderr.isatty() and now - self._told > PROGRESS_S:
            self._told = now
            self.stderr.write(f"\r{done:,} of {total:,} sessions", ending="")

    def _tell(self, report: PurgeReport, *, to_memory: bool) -> None:
        write = self.stdout.write
        verb = "would be removed" if report.dry_run else "removed"
        write(f"{report.sessions} session(s) with {report.events} event(s) {verb}.")
        if report.dry_run:
            self._list(report.named)
        else:
            write(f"{report.artifacts} artifact(s) and {report.files} file(s) of theirs removed.")
            if to_memory:
                write(f"{report.memories} memories were made of them.")
            if report.finished:
                write(
                    f"{report.finished} session(s) that an earlier purge had begun to remove are gone, too."
                )
        if report.copies:
            write(
                f"{report.copies} of them are copies of sessions that one of ADK's services keeps: those are not"
                " touched, and their copies come back when it is read. DELETE on ADK's own paths removes both."
            )
        if report.left:
            write(f"Left alone ({len(report.left)}):")
            self._list(report.left)

    def _list(self, lines: list[str]) -> None:
        for line in lines[:MOST_LINES]:
            self.stdout.write(f"  {visible_text.escape_name(line)}")
        if len(lines) > MOST_LINES:
            self.stdout.write(f"  … and {len(lines) - MOST_LINES} more")


def _span(text: str) -> float:
    try:
        return durations.parse(text)
    except BadInput as error:
        raise ArgumentTypeError(f"{error.message} {error.hint}") from None
