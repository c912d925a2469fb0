"""`manage.py merge_evals STORE…`: make one run of the shards of `run_evals --shard`, and judge it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from evals_app.cli import results
from evals_app.cli.results import COULD_NOT_RUN
from evals_app.cli.terminal import Console
from evals_app.runs.merging import merge_stores
from sessions_app.errors import BadInput, DevUIError
from sessions_app.store.schema import ensure_schema

DEFAULT_HISTORY = 20


class Command(BaseCommand):
    """Merge shards and copy whole runs. Exits as `run_evals` does; 2 also if the stores cannot be merged."""

    help = (
        "Merge the shards of `run_evals --shard` into one run, in the store that DATABASE_URL names, and judge it."
        " Whole runs in the stores are copied: they are history and baseline."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments; underscores are accepted for hyphens, as in ADK's commands."""

        add = results.option_adder(parser)
        add(
            "stores",
            nargs="+",
            type=Path,
            metavar="STORE",
            help="SQLite file of a shard's store, or of earlier runs",
        )
        add(
            "--history",
            type=int,
            default=DEFAULT_HISTORY,
            metavar="N",
            help=f"newest whole runs of an evalset to copy (default: {DEFAULT_HISTORY})",
        )
        results.add_result_options(add)

    def handle(self, *args: Any, **options: Any) -> None:
        """Merge, then judge the merged runs.

        Raises:
            CommandError: the stores cannot be merged.
            SystemExit: an attempt did not pass, or the gate fails.
        """
        try:
            code = self._merge(options)
        except DevUIError as error:
            message = "\n".join(filter(None, (error.message, error.hint)))
            raise CommandError(message, returncode=COULD_NOT_RUN) from error
        if code:
            sys.exit(code)

    def _merge(self, options: dict[str, Any]) -> int:
        if options["history"] < 0:
            raise BadInput(f"--history is {options['history']}.", hint="Give a number from 0 on.")
        gate = results.read_gate(options)
        ensure_schema()
        merge = merge_stores(options["stores"], options["history"])
        self.stdout.ending = ""
        console = Console(self.stdout)
        if merge.copied:
            self.stdout.write(f"Earlier runs copied: {merge.copied}\n")
        if not merge.runs:
            results.refuse_options(options, "These stores have no shards, so there is nothing to judge.")
        for run in merge.runs:
            console.begin(run, alone=0)
            console.end(run)
        return results.report(merge.runs, gate, options, console)
