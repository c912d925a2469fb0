"""`manage.py optimize AGENT_DIR EVALSET`: search for a better instruction with one of ADK's optimisers."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from evals_app.analysis.ci_gate import COULD_NOT_RUN
from evals_app.cli import results
from evals_app.cli.evals_command import EvalsCommand
from evals_app.cli.optimisation_lines import format_head, format_report
from evals_app.cli.results import Add
from evals_app.cli.run_options import add_metric_options, parse_limit
from evals_app.cli.terminal import Console
from evals_app.execution.app_names import find_agent
from evals_app.execution.child_processes import StoppedBySignal
from evals_app.execution.local_optimisation import (
    carry_out_here,
    carry_out_in_children,
    inspect_in_child,
)
from evals_app.execution.local_runner import cancel_runs, own_new_runs
from evals_app.files.tags import split_tags
from evals_app.models import EvalSet, Optimisation
from evals_app.optimisation import settings, steps
from evals_app.optimisation.candidates import read_report
from evals_app.optimisation.orders import choose_tagged_cases, make_shared_order, save_variant
from evals_app.optimisation.settings import OPTIMISERS, OptimiserSettings
from evals_app.optimisation.verdict import read_verdict
from evals_app.runs import folder_orders, run_orders
from evals_app.runs.folder_orders import EvalsetRequest
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.writes import crashes
from sessions_app.agents.folder import AgentsFolder
from sessions_app.management.arguments import parse_path
from sessions_app.store.database.schema import ensure_schema
from sessions_app.store.errors import BadInput

NO_GAIN = 1
"""Exit code of an optimisation that found nothing that is better than the original."""

INTERRUPTED = "The command was interrupted."


class Command(EvalsCommand):
    """Optimise an instruction. Exits 0 if the gain is proven, 1 if it is not, 2 if the optimisation could not end."""

    help = (
        "Search for a better instruction of an agent with one of ADK's optimisers, and compare the best one with the"
        " original. Exits 0: it is better, 1: that is not proven, 2: could not run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments; underscores are accepted for hyphens, as in ADK's commands."""
        add = results.option_adder(parser)
        add("agent_dir", type=parse_path, help="folder of the agent, or pkg.module:name of an agent")
        add("evalset", nargs="?", default="", help="a file, or the id of one")
        _add_optimiser_options(add)
        _add_case_options(add)
        add_metric_options(add)
        add(
            "--parallelism",
            type=int,
            default=run_orders.DEFAULT_PARALLELISM,
            metavar="N",
            help=f"attempts at once (default: {run_orders.DEFAULT_PARALLELISM})",
        )
        add(
            "--limit",
            type=parse_limit,
            action="append",
            default=[],
            metavar="NAME=NUMBER",
            help="stop at tokens= or cost= of everything; end an attempt at attempt_seconds= (repeatable)",
        )
        add("--output", type=Path, metavar="FILE", help="write the best candidate as a variant file")
        add(
            "--plan", action="store_true", help="run nothing; write how the cases are divided, and the bounds"
        )
        add("--resume", metavar="OPTIMISATION", default="", help="go on with one that ended early: its id")

    def run_command(self, options: dict[str, Any]) -> int:
        """Carry an optimisation out; return the exit code."""
        agents, app_name = find_agent(options["agent_dir"])
        ensure_schema()
        if bool(options["evalset"]) == bool(options["resume"]):
            raise BadInput(
                "Name an evalset, or an optimisation to resume.",
                hint="optimize AGENT_DIR EVALSET --model MODEL, or optimize AGENT_DIR --resume OPTIMISATION.",
            )
        if options["output"]:
            results.require_writable(options["output"], "output")
        console = self.open_console()
        with own_new_runs(app_name):
            if options["resume"]:
                optimisation = _resume(agents, app_name, options)
            else:
                created = _create(agents, app_name, options)
                if created is None:
                    return self._write_plan(agents, app_name, options)
                optimisation = created
            console.write_lines(format_head(read_report(optimisation)))
            optimisation = self._carry_out(optimisation, agents, app_name, console)
        return _report(optimisation, options, console)

    def _write_plan(self, agents: AgentsFolder, app_name: str, options: dict[str, Any]) -> int:
        evalset = folder_orders.find_evalset(agents, app_name, options["evalset"])
        chosen = _read_settings(evalset, options)
        self.stdout.write(
            f"training: {', '.join(chosen.training)}\nvalidation: {', '.join(chosen.validation)}\n"
        )
        self.stdout.write(f"{chosen.bounds_text}\n")
        return 0

    def _carry_out(
        self, optimisation: Optimisation, agents: AgentsFolder, app_name: str, console: Console
    ) -> Optimisation:
        """Carry an optimisation out; return it as it ended. If it is stopped, it is cancelled.

        Raises:
            KeyboardInterrupt, StoppedBySignal: it was stopped.
        """
        try:
            if self.has_child:
                return carry_out_in_children(optimisation.pk, agents, app_name, console, console.write_death)
            return carry_out_here(optimisation.pk, agents, app_name, console)
        except (KeyboardInterrupt, StoppedBySignal):
            cancel_runs(steps.list_active_runs(optimisation.pk))
            steps.end_own_optimisation(optimisation.pk, Optimisation.Status.CANCELLED, INTERRUPTED)
            optimisation = steps.find_optimisation(optimisation.pk)
            console.write_lines(format_report(read_report(optimisation), None))
            raise


def _add_optimiser_options(add: Add) -> None:
    add(
        "--optimiser",
        "--optimizer",
        choices=list(OPTIMISERS),
        default=settings.SIMPLE,
        help="default: simple",
    )
    add("--model", default="", metavar="MODEL", help="the model that writes instructions")
    add(
        "--proposals",
        type=int,
        default=settings.DEFAULT_PROPOSALS,
        metavar="N",
        help=f"rewrites that simple asks the model for, and that the budget of gepa is made for (default:"
        f" {settings.DEFAULT_PROPOSALS})",
    )
    add(
        "--batch-size",
        type=int,
        default=settings.DEFAULT_BATCH_SIZE,
        metavar="N",
        help=f"training cases that score a candidate (default: {settings.DEFAULT_BATCH_SIZE})",
    )
    add(
        "--repetitions",
        type=int,
        default=settings.DEFAULT_REPETITIONS,
        metavar="N",
        help=f"of each validation case in the final comparison (default: {settings.DEFAULT_REPETITIONS})",
    )


def _add_case_options(add: Add) -> None:
    add("--training", metavar="case1,case2", default="", help="training cases (default: the others)")
    add("--validation", metavar="case1,case2", default="", help="validation cases (default: a random half)")
    add(
        "--training-tags",
        type=split_tags,
        default=(),
        metavar="a,b",
        help="train with the cases of these tags",
    )
    add(
        "--validation-tags",
        type=split_tags,
        default=(),
        metavar="a,b",
        help="validate with those of these tags",
    )
    add(
        "--seed",
        type=int,
        default=settings.DEFAULT_SEED,
        metavar="N",
        help=f"of random choices (default: {settings.DEFAULT_SEED})",
    )


def _create(agents: AgentsFolder, app_name: str, options: dict[str, Any]) -> Optimisation | None:
    """Create an optimisation, after everything was checked; None if only its plan is wanted.

    Raises:
        NotFound, BadFile, BadInput: the evalset, the agent or an option cannot be used.
    """
    evalset = folder_orders.find_evalset(agents, app_name, options["evalset"])
    chosen = _read_settings(evalset, options)
    request = EvalsetRequest(
        options["evalset"],
        metrics=options["metrics"],
        criteria=dict(options["criteria"]),
        config=options["config"],
        parallelism=options["parallelism"],
        limits=EvalRunLimits.of(dict(options["limit"])),
    )
    new_run = make_shared_order(folder_orders.prepare_from_folder(agents, app_name, request))
    if options["plan"]:
        return None
    agent = inspect_in_child(agents, app_name, chosen)
    return steps.create_optimisation(new_run, chosen, agent, source="command")


def _read_settings(evalset: EvalSet, options: dict[str, Any]) -> OptimiserSettings:
    """Return the settings that the options describe.

    Raises:
        BadInput: an option cannot be used.
    """
    training, validation = settings.divide_cases(
        [case_id for _, case_id in run_orders.choose_cases(evalset, ())],
        training=_choose(evalset, options["training"], options["training_tags"]),
        validation=_choose(evalset, options["validation"], options["validation_tags"]),
        seed=options["seed"],
    )
    chosen = OptimiserSettings(
        options["optimiser"],
        options["model"],
        training,
        validation,
        **{name: options[name] for name in ("proposals", "batch_size", "repetitions", "seed")},
    )
    chosen.check()
    return chosen


def _choose(evalset: EvalSet, ids_text: str, tags: Collection[str]) -> list[str]:
    return choose_tagged_cases(evalset, run_orders.split_case_ids(evalset, ids_text), tags)


NEW_OPTIONS = (
    *("model", "training", "validation", "training_tags", "validation_tags"),
    *("metrics", "criteria", "config", "plan"),
)
"""Options of a new optimisation; a resumed one keeps its own. Those with a default are ignored."""


def _resume(agents: AgentsFolder, app_name: str, options: dict[str, Any]) -> Optimisation:
    """Return an optimisation that goes on in this process.

    Raises:
        NotFound: there is no such optimisation.
        BadInput: it is of another agent, or an option would change it.
        DevUIError: it cannot be resumed.
    """
    if given := results.list_given_options(options, NEW_OPTIONS):
        raise BadInput(
            f"A resumed optimisation keeps its options: {given} cannot be given.",
            hint="Only --limit can be changed. Or start a new one.",
        )
    optimisation = steps.find_optimisation(options["resume"])
    if optimisation.evalset.app_name != app_name:
        raise BadInput(
            f"Optimisation {optimisation.pk} is of {optimisation.evalset.app_name!r}, not of {app_name!r}.",
            hint="Name the folder of that agent.",
        )
    limits = EvalRunLimits.of(dict(options["limit"])) if options["limit"] else None
    crashes.crash_orphans()  # a process that was killed said nothing
    optimisation = steps.resume(optimisation.pk, agents.code_version(app_name), limits=limits)
    for run in steps.list_active_runs(optimisation.pk):
        crashes.crash_abandoned(run.pk)
    return optimisation


def _report(optimisation: Optimisation, options: dict[str, Any], console: Console) -> int:
    """Write the result of an ended optimisation; return the exit code."""
    verdict = read_verdict(optimisation)
    console.write_lines(format_report(read_report(optimisation), verdict))
    if verdict is None:
        return COULD_NOT_RUN
    if verdict.matrix:
        console.write_matrix(verdict.matrix)
    if options["output"] and save_variant(optimisation, options["output"]):
        console.write_path("variant", options["output"])
    return 0 if verdict.is_proven else NO_GAIN
