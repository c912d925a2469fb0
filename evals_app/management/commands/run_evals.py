"""`manage.py run_evals AGENT_DIR EVALSET…`: run evalsets from the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from evals_app.analysis import variant_matrix
from evals_app.analysis.ci_gate import COULD_NOT_RUN, NOT_RUN, Gate
from evals_app.cli import plans, results
from evals_app.cli.evals_command import EvalsCommand, ExecuteRuns, order_confirmations
from evals_app.cli.results import Add
from evals_app.cli.run_options import add_metric_options, parse_limit
from evals_app.cli.terminal import Console
from evals_app.execution.app_names import find_agent
from evals_app.execution.child_processes import StoppedBySignal
from evals_app.execution.local_runner import cancel_runs, own_new_runs
from evals_app.execution.variant_check import prepare_variants
from evals_app.files.tags import split_tags
from evals_app.models import PARTIAL_SOURCES, EvalRun
from evals_app.runs import folder_orders, rerun, run_orders
from evals_app.runs.folder_orders import EvalsetRequest
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.replay.policy import LIVE, MODEL_CHOICES, TOOL_CHOICES
from evals_app.runs.shards import Shard
from evals_app.runs.variant_orders import order_variants
from evals_app.variants.model_variants import ROOT, SCOPES
from evals_app.variants.variant import Variant, require_few_variants
from evals_app.variants.variant_files import read_variant
from sessions_app.agents.folder import AgentsFolder
from sessions_app.management.arguments import parse_path
from sessions_app.store.database.schema import ensure_schema
from sessions_app.store.errors import BadInput, NotFound


@dataclass(frozen=True)
class EvalsetArgument:
    """An EVALSET argument: a file or an id, and the text that names its cases (empty: all)."""

    name: str
    cases: str = ""

    @classmethod
    def parse(cls, argument: str) -> EvalsetArgument:
        """Parse `name[:case1,case2]`. The longest prefix that is a file is the name, else the part before the colon."""
        if os.path.isfile(argument):  # also False for a name that is too long for a file
            return cls(argument)
        colons = [index for index, sign in enumerate(argument) if sign == ":"]
        files = [index for index in colons if os.path.isfile(argument[:index])]
        index = max(files, default=min(colons, default=len(argument)))
        return cls(argument[:index], argument[index + 1 :])


class Command(EvalsCommand):
    """Run evalsets. Exits 0 when every attempt passed, 1 when one did not, 2 when it could not run.

    With `--fail-on`, exit code 1 depends on a comparison with earlier runs, and 3 means that it was not possible.
    """

    help = (
        "Run evalsets against an agent. Exits 0: all passed, 1: one did not, 2: could not run, 3: not compared with"
        " earlier runs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments; underscores are accepted for hyphens, as in ADK's commands."""

        add = results.option_adder(parser)
        add(
            "agent_dir",
            type=parse_path,
            help="folder of the agent, or pkg.module:name of an agent or a factory",
        )
        add(
            "evalsets",
            nargs="*",
            type=EvalsetArgument.parse,
            metavar="EVALSET[:case1,case2]",
            help="a file, or the id of one",
        )
        add_metric_options(add)
        _add_execution_options(add)
        _add_variant_options(add)
        results.add_result_options(add)
        plans.add_plan_options(add)

    def run_command(self, options: dict[str, Any]) -> int:
        """Run the evalsets one after the other; return the exit code."""
        agents, app_name = find_agent(options["agent_dir"])
        if plans.is_requested(options):
            ensure_schema()
            return self._write_plan(agents, app_name, options)
        console = self.open_console()
        with self.open_executor(agents, app_name, console) as execute:
            ensure_schema()
            return self._run_and_judge(agents, app_name, console, execute, options)

    def _run_and_judge(
        self,
        agents: AgentsFolder,
        app_name: str,
        console: Console,
        execute: ExecuteRuns,
        options: dict[str, Any],
    ) -> int:
        """Create the runs, execute and judge them; return the exit code."""
        gate = _prepare_gate(agents, app_name, options)
        variants = _read_variants(agents, app_name, options)
        with own_new_runs(app_name):
            executing = ordered = _create_runs(agents, app_name, gate, variants, options)
            try:
                executed = execute(ordered)
                runs = _first_runs(_gated_runs(executed))
                if options["confirm"] and (
                    executing := order_confirmations(runs, gate, options["confirm"], agents)
                ):
                    console.write_confirmation(executing)
                    execute(executing)
            except (KeyboardInterrupt, StoppedBySignal):
                console.write_interruption(options["agent_dir"], cancel_runs(executing))
                results.write_stopped_runs(_first_runs(_gated_runs(ordered)), gate, options, console)
                raise
        if not runs:
            self.stdout.write(
                f"Shard {options['shard']} has none of the cases: there are fewer than shards.\n"
            )
        code = results.report(runs, gate, options, console)
        for matrix in map(variant_matrix.read_matrix, runs):
            if variants and matrix:
                console.write_matrix(matrix)
        return COULD_NOT_RUN if any(run.status in NOT_RUN for run in executed) else code

    def _write_plan(self, agents: AgentsFolder, app_name: str, options: dict[str, Any]) -> int:
        """Write what the runs can show; run nothing."""
        self.stdout.ending = ""
        for request in _evalset_requests(agents, app_name, options):
            planned = folder_orders.prepare_from_folder(agents, app_name, request)
            plans.write_plan(planned, options, self.stdout)
        return 0


def _add_execution_options(add: Add) -> None:
    add("--num-runs", type=int, metavar="N", help="repetitions of every case (default: 1)")
    at_once = f"attempts at once (default: {run_orders.DEFAULT_PARALLELISM}, or that of the resumed run)"
    add("--parallelism", type=int, metavar="N", help=at_once)
    add(
        "--limit",
        type=parse_limit,
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="stop at seconds=, tokens=, cost=; end an attempt at attempt_seconds=; retry a model for"
        " retry_seconds= (repeatable)",
    )
    add(
        "--replay-models",
        choices=[name for name, _ in MODEL_CHOICES],
        help="default: live",
    )
    add("--replay-tools", choices=[name for name, _ in TOOL_CHOICES], help="default: live")
    add(
        "--replay-of",
        metavar="RUN",
        help="the run whose recording is replayed, or compared with: its id, or last",
    )
    add("--tags", type=split_tags, metavar="a,b", help="run only the cases that have one of these tags")
    add("--shard", metavar="i/n", help="run part i of n of the cases; merge_evals makes one run of all parts")
    add("--resume", metavar="RUN", help="resume a run that ended early: its id, or last")
    add(
        "--retry",
        metavar="RUN",
        help="try the attempts of a run again that did not pass: its id, or last; first outcomes still count",
    )


def _add_variant_options(add: Add) -> None:
    add(
        "--variant",
        type=parse_path,
        action="append",
        default=[],
        metavar="FILE",
        help="also run a variant of the agent, from this YAML or JSON file, and compare it (repeatable)",
    )
    add(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="also run the agent with this model, as a variant (repeatable)",
    )
    add(
        "--model-scope",
        choices=[*SCOPES],
        default=ROOT,
        help="the agents that get the models of --model: the root agent, or all with a model of their own (default:"
        f" {ROOT})",
    )


def _read_variants(agents: AgentsFolder, app_name: str, options: dict[str, Any]) -> list[Variant]:
    """Return the variants of the options, those of models after the others, checked against the agent.

    Raises:
        NotFound, BadFile, BadInput: a file is missing or invalid, does not fit the agent, or cannot be combined with
            another option.
    """
    variants = [read_variant(path) for path in options["variant"]]
    models = options["model"]
    if (variants or models) and options["shard"]:
        raise BadInput(
            "--variant and --model cannot be given with --shard: they are compared case by case with the whole run.",
            hint="Run the shards without variants, or the variants without shards.",
        )
    require_few_variants(len(variants) + len(models))
    # Without evalsets, `_create_runs` refuses the options; the agent need not be loaded for that.
    if not options["evalsets"] or not (variants or models):
        return variants
    return prepare_variants(agents, app_name, variants, models, options["model_scope"])


def _gated_runs(runs: Sequence[EvalRun]) -> list[EvalRun]:
    """Return the runs that the exit code depends on: all but those of variants that are compared with one of them."""
    ids = {run.pk for run in runs}
    return [run for run in runs if run.variant_of_id not in ids]


def _create_runs(
    agents: AgentsFolder, app_name: str, gate: Gate, variants: Sequence[Variant], options: dict[str, Any]
) -> list[EvalRun]:
    """Return the runs to execute: new ones, each before those of its variants, or one that is resumed.

    Raises:
        BadInput: both are requested, or neither, or a setting of the gate is invalid for one of them.
    """
    again = options["resume"] or options["retry"]
    if bool(again) == bool(options["evalsets"]) or (options["resume"] and options["retry"]):
        raise BadInput(
            "Name evalsets to run, or one run to resume.",
            hint="run_evals AGENT_DIR EVALSET…, or run_evals AGENT_DIR --resume RUN.",
        )
    if again:
        return _restart_run(agents, app_name, gate, again, options)
    requests = _evalset_requests(agents, app_name, options)
    if options["shard"]:
        requests = folder_orders.deal_cases(agents, app_name, requests, Shard.parse(options["shard"]))
    with transaction.atomic():  # all of them or none: a run that nobody carries out would wait on the pages
        runs = [folder_orders.order_from_folder(agents, app_name, request) for request in requests]
        for run in runs:
            gate.read_settings(run)
        return [ordered for run in runs for ordered in (run, *order_variants(run, variants))]


def _evalset_requests(agents: AgentsFolder, app_name: str, options: dict[str, Any]) -> list[EvalsetRequest]:
    requests = [
        _evalset_request(argument, _find_cases(agents, app_name, argument), options)
        for argument in options["evalsets"]
    ]
    if options["tags"] is None:
        return requests
    return folder_orders.choose_tagged_cases(agents, app_name, requests, options["tags"])


def _find_cases(agents: AgentsFolder, app_name: str, argument: EvalsetArgument) -> list[str]:
    """Return the ids of the cases that an argument names; empty: all."""
    if not argument.cases:
        return []
    evalset = folder_orders.find_evalset(agents, app_name, argument.name)
    return run_orders.split_case_ids(evalset, argument.cases)


def _evalset_request(
    argument: EvalsetArgument, cases: Sequence[str], options: dict[str, Any]
) -> EvalsetRequest:
    return EvalsetRequest(
        argument.name,
        cases,
        metrics=options["metrics"],
        criteria=dict(options["criteria"]),
        config=options["config"],
        num_runs=_number_or(options["num_runs"], 1),
        parallelism=_number_or(options["parallelism"], run_orders.DEFAULT_PARALLELISM),
        limits=EvalRunLimits.of(dict(options["limit"])),
        policy={
            "models": options["replay_models"] or LIVE,
            "tools": options["replay_tools"] or LIVE,
            "source": {"run": options["replay_of"] or ""},
        },
    )


def _number_or(number: int | None, default: int) -> int:
    return default if number is None else number


ORDER_OPTIONS = (
    "num_runs",
    "metrics",
    "criteria",
    "config",
    "limit",
    "replay_models",
    "replay_tools",
    "replay_of",
    "shard",
    "tags",
    "variant",
    "model",
)
"""Options of a new run; a resumed run keeps its own."""


def _first_runs(runs: Sequence[EvalRun]) -> list[EvalRun]:
    """Return the runs that are judged: in place of a retry, the run whose attempts it tried again."""
    return [rerun.reload_run(run_id) for run_id in dict.fromkeys(map(rerun.find_first_run_id, runs))]


def _restart_run(
    agents: AgentsFolder, app_name: str, gate: Gate, name: str, options: dict[str, Any]
) -> list[EvalRun]:
    """Return the runs that resume a run, or retry its attempts.

    Raises:
        BadInput: an option would change the run.
        NotFound: no such run.
    """
    from evals_app.runs.writes import crashes
    from evals_app.runs.writes.runs import set_parallelism
    from sessions_app.agent_processes import processes

    if given := results.list_given_options(options, ORDER_OPTIONS):
        raise BadInput(
            f"A resumed run keeps its options: {given} cannot be given.",
            hint="Only --parallelism can be changed. Or start a new run of the evalset.",
        )
    if options["parallelism"] is not None:
        run_orders.check_parallelism(options["parallelism"])
    crashes.crash_orphans()  # a process that was killed said nothing
    run = _find_run(app_name, name, skip_repeats=bool(options["retry"]))
    gate.read_settings(run)
    if run.active and run.runtime is not None:
        processes.confirm_alive(run.runtime)
    crashes.crash_abandoned(run.pk)
    gate.check_run(rerun.reload_run(rerun.find_first_run_id(run)))
    runs = rerun.retry(run, agents=agents) if options["retry"] else [rerun.resume(run, agents)]
    if options["parallelism"] is not None:
        for run in runs:
            set_parallelism(run.id, options["parallelism"])
            run.refresh_from_db(fields=["parallelism"])
    return runs


def _find_run(app_name: str, name: str, *, skip_repeats: bool) -> EvalRun:
    """Return a run of an agent by its id, a prefix of it, or as the last one.

    `skip_repeats`: the last one is none that repeats a part of another run.

    Raises:
        NotFound: no such run.
        BadInput: the prefix matches several runs.
    """
    runs = EvalRun.objects.select_related("evalset", "version").filter(app_name=app_name)
    if name != "last":
        runs = runs.filter(pk__startswith=name)
    elif skip_repeats:
        runs = runs.exclude(source__in=PARTIAL_SOURCES)
    matching_runs = list(runs.order_by("-created_at")[:2])
    if not matching_runs:
        raise NotFound(f"{app_name} has no eval run {name!r}.", hint="run_evals prints the id of each run.")
    if name != "last" and len(matching_runs) > 1:
        raise BadInput(f"Several eval runs begin with {name!r}.", hint="Give more characters of the id.")
    return matching_runs[0]


def _prepare_gate(agents: AgentsFolder, app_name: str, options: dict[str, Any]) -> Gate:
    """Return the gate; a missing baseline is refused before anything runs."""
    gate = results.read_gate(options)
    if options["shard"] and gate != results.NO_GATE:
        raise BadInput(
            "A shard is judged with all others: --baseline and --fail-on cannot be given with --shard.",
            hint="Give them to merge_evals.",
        )
    for argument in options["evalsets"]:
        if gate != results.NO_GATE:
            evalset = folder_orders.find_evalset(agents, app_name, argument.name)
            gate.check(evalset, _find_cases(agents, app_name, argument) or options["tags"] or ())
    return gate
