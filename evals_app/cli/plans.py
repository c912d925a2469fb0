"""Planned runs on the command line: what their comparison can show, before anything runs."""

from __future__ import annotations

from typing import Any

from evals_app.analysis import planned_runs, power
from evals_app.analysis.planned_runs import Plan
from evals_app.cli.results import Add, list_given_options
from evals_app.cli.terminal import MAX_NAME_LENGTH
from evals_app.cli.terminal_text import LineWriter, Output, as_single_line, shorten
from evals_app.metrics.gate_config import GateConfig
from evals_app.runs.writes.runs import NewEvalRun
from sessions_app.store.errors import BadInput

HEADS = ("repetitions", "in one case", f"in {power.MANY_CASES} cases", "false alarm")
OTHER_OPTIONS = (
    *("resume", "retry", "shard", "variant", "model", "fail_on", "confirm", *GateConfig.model_fields),
    *("markdown", "junit", "json", "csv", "html"),
)
"""Options that need a run, or are about a part of the cases."""
SHORTAGES_SHOWN = 20


def add_plan_options(add: Add) -> None:
    """Declare the options of a plan."""
    add("--plan", action="store_true", help="run nothing; write the chance to see a drop with --num-runs")
    add(
        "--drop",
        type=float,
        metavar="SHARE",
        help=f"with --plan: how much a pass rate falls (default: {power.DEFAULT_DROP})",
    )


def is_requested(options: dict[str, Any]) -> bool:
    """Tell whether the options ask for a plan, and check that they fit one.

    Raises:
        BadInput: no evalset is named, or an option does not belong to a plan or needs one.
    """
    if not options["plan"]:
        if options["drop"] is not None:
            raise BadInput("--drop is an option of --plan.", hint="Add --plan, or leave out --drop.")
        return False
    if given := list_given_options(options, OTHER_OPTIONS):
        raise BadInput("--plan runs nothing.", hint=f"Leave out {given}.")
    if not options["evalsets"]:
        raise BadInput("Name evalsets to plan.", hint="run_evals AGENT_DIR EVALSET… --plan.")
    return True


def write_plan(planned: NewEvalRun, options: dict[str, Any], out: Output) -> None:
    """Write what a planned run can show.

    Raises:
        BadInput: the drop is out of range.
        NotFound: the named baseline does not exist.
    """
    drop = power.DEFAULT_DROP if options["drop"] is None else options["drop"]
    plan = planned_runs.plan_run(planned, baseline_name=options["baseline"] or "", drop=drop)
    write = LineWriter(out).line
    cases = len(planned.cases)
    write(f"{planned.version.evalset.path}: {cases} case{'s' * (cases != 1)}, {_baseline_text(plan)}")
    if plan.power.chances:
        write(
            f"  chance to see a pass rate fall by {100 * drop:g} points, ±{plan.power.precision_points} points:"
        )
        write("  " + "  ".join(HEADS))
        for row in plan.power.chances:
            mark = "  (planned)" if row is plan.power.planned_chances else ""
            shares = (row.one_case, row.many_cases, row.false_alarm)
            cells = (str(row.repetitions), *(f"{100 * share:.0f} %" for share in shares))
            columns = (cell.rjust(len(head)) for cell, head in zip(cells, HEADS, strict=True))
            write(f"  {'  '.join(columns)}{mark}")
    write(f"  {plan.advice}")
    if shortages := plan.power.shortages:
        repetitions = f"{planned.num_runs} repetition{'s' * (planned.num_runs != 1)}"
        write(
            f"  With {repetitions}, {len(shortages)} of {cases} cannot be called regressed, even if they always fail:"
        )
    for shortage in shortages[:SHORTAGES_SHOWN]:
        write(f"    {shorten(as_single_line(shortage.key.label), MAX_NAME_LENGTH)}: {shortage.remedy}")
    if unshown := shortages[SHORTAGES_SHOWN:]:
        write(f"    and {len(unshown)} more")


def _baseline_text(plan: Plan) -> str:
    if plan.reference is None:
        return "no run to compare with"
    run = plan.reference.run
    return f"against run {run.id}{' (baseline)' if run.baseline else ''}"
