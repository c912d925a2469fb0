"""`manage.py merge_evals STORE…`: make one run of the shards of `run_evals --shard`, and judge it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from evals_app.analysis.baselines import MAX_EARLIER_RUNS
from evals_app.analysis.ci_gate import Gate
from evals_app.cli import results
from evals_app.cli.evals_command import EvalsCommand, order_confirmations
from evals_app.cli.terminal import Console
from evals_app.execution.child_processes import StoppedBySignal
from evals_app.execution.local_runner import own_new_runs
from evals_app.models import EvalRun
from evals_app.runs import folder_orders
from evals_app.runs.merging import copy_earlier_runs, merge_stores
from sessions_app.agents.folder import AgentsFolder
from sessions_app.store.database.schema import ensure_schema
from sessions_app.store.errors import BadInput

INTERRUPTION = "The repetitions of suspicious cases were interrupted."


class Command(EvalsCommand):
    """Merge shards and copy whole runs. Exits as `run_evals` does; 2 also if the stores cannot be merged."""

    help = (
        "Merge the shards of `run_evals --shard` into one run, in the store that DATABASE_URL names, and judge it."
        " Whole runs in the stores are copied: they are history and baseline."
    )

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
            "--earlier",
            type=Path,
            metavar="STORE",
            help="SQLite file of earlier runs to compare with; if it cannot be used, exit 3 after the merge",
        )
        add(
            "--not-compared",
            default="",
            metavar="REASON",
            help="why there is no store of earlier runs, although there should be: exit 3 after the merge",
        )
        add(
            "--history",
            type=int,
            default=MAX_EARLIER_RUNS,
            metavar="N",
            help=f"newest whole runs of an evalset to copy (default: {MAX_EARLIER_RUNS})",
        )
        results.add_result_options(add)
        add(
            "--agents",
            type=Path,
            metavar="DIR",
            help="folder of the agent, or of all agents, in the version that the shards ran; for --confirm",
        )

    def run_command(self, options: dict[str, Any]) -> int:
        """Merge, repeat suspicious cases if requested, then judge the merged runs; return the exit code."""
        if options["history"] < 0:
            raise BadInput(f"--history is {options['history']}.", hint="Give a number from 0 on.")
        gate = results.read_gate(options)
        if options["confirm"] and options["agents"] is None:
            raise BadInput("--confirm needs the agent.", hint="Name its folder with --agents DIR.")
        ensure_schema()
        merge = merge_stores(options["stores"], options["history"])
        console = self.open_console()
        if not merge.runs:
            results.refuse_options(options, "These stores have no shards, so there is nothing to judge.")
        copied, not_compared = _copy_earlier_runs(merge.runs, options)
        if copied := copied + merge.copied:
            self.stdout.write(f"Earlier runs copied: {copied}\n")
        for run in merge.runs:
            console.begin(run, alone=0)
            console.end(run)
        gate = replace(gate, not_compared=not_compared)
        for run in merge.runs:
            gate.check_run(run)
        try:
            if options["confirm"]:
                self._repeat_suspicious_cases(merge.runs, gate, options, console)
        except (KeyboardInterrupt, StoppedBySignal):
            results.report(merge.runs, gate, options, console, not_compared or INTERRUPTION)
            raise
        return results.report(merge.runs, gate, options, console, not_compared)

    def _repeat_suspicious_cases(
        self, runs: Sequence[EvalRun], gate: Gate, options: dict[str, Any], console: Console
    ) -> None:
        """Repeat the cases that look worse than their baseline, with the agents that the shards ran."""
        agents_by_run = [(run, _find_agent(options["agents"], run)) for run in runs]
        for run, agents in agents_by_run:
            with own_new_runs(run.app_name):
                if ordered := order_confirmations([run], gate, options["confirm"], agents):
                    console.write_confirmation(ordered)
                    with self.open_executor(agents, run.app_name, console) as execute:
                        execute(ordered)


def _copy_earlier_runs(runs: Sequence[EvalRun], options: dict[str, Any]) -> tuple[int, str]:
    """Copy the earlier runs; return their number, and why the merged runs cannot be compared, in lines.

    A store that cannot be used is no error: the merged runs have been paid for.
    """
    if options["earlier"] is None:
        return 0, options["not_compared"]
    try:
        return copy_earlier_runs(options["earlier"], runs, options["history"]), options["not_compared"]
    except BadInput as error:
        return 0, "\n".join(filter(None, (options["not_compared"], error.message, error.hint)))


def _find_agent(folder: Path, run: EvalRun) -> AgentsFolder:
    """Return the folder of the agent of a run.

    Raises:
        BadInput: the folder has no such agent, or other code than the run.
    """
    agents = folder_orders.find_agent(folder, run.app_name)
    code_version = agents.code_version(run.app_name)
    if code_version != run.code_version:
        raise BadInput(
            f"The code of {run.app_name!r} in {folder} is {code_version}, the shards ran {run.code_version}.",
            hint="--confirm needs the checkout of the shards.",
        )
    return agents
