"""Results of ended runs on the command line: options, files and the exit code, shared by its commands."""

from __future__ import annotations

import errno
import json
import os
import re
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evals_app.analysis import gate_settings
from evals_app.analysis.ci_gate import (
    ANY,
    COULD_NOT_RUN,
    NOT_RUN,
    REGRESSION,
    SCORES,
    Gate,
    GateResult,
    GateStatus,
    find_worst_result,
)
from evals_app.cli.terminal import Console
from evals_app.metrics.gate_config import GATE, GateConfig, option_name
from evals_app.models import EvalRun
from evals_app.runs.rerun import check_confirming_repetitions
from evals_app.runs.variant_orders import list_variant_runs
from sessions_app.store.errors import BadInput

FILES = {"junit": "JUnit XML", "json": "JSON", "csv": "CSV", "html": "HTML"}
"""Formats of result files, by the options that name a file."""
NO_GATE = Gate()
STOPPED = "The command was stopped before the run was compared. Run the evalset again."
"""Reason why a run that had ended before a signal is not compared."""

Add = Callable[..., Any]


def option_adder(parser: ArgumentParser) -> Add:
    """Return the function that declares an argument; underscores are accepted for hyphens, as in ADK's commands."""

    def add(*names: str, **options: Any) -> None:
        spellings = [name.replace("-", "_").replace("__", "--", 1) for name in names]
        parser.add_argument(*dict.fromkeys([*names, *spellings]), **options)

    return add


def add_result_options(add: Add) -> None:
    """Declare the options of baseline, gate and files."""
    add("--baseline", metavar="RUN", help="compare with a run: its id, baseline (the marked one) or previous")
    add(
        "--fail-on",
        choices=(REGRESSION, SCORES, ANY),
        help="exit 1 only for regressions, also for falls of scores, or also for unclear results; the first two exit 3"
        " if earlier runs could not be compared (default: exit 1 if an attempt did not pass)",
    )
    add(
        "--allow-no-baseline",
        action="store_true",
        help="do not compare an evalset that has no baseline yet (default: refuse)",
    )
    for name, setting in GateConfig.model_fields.items():
        option = option_name(name)
        if name == "score_tolerance":
            add(option, action="append", metavar="NAME=NUMBER", help=f"{setting.description}; repeatable")
        else:
            add(option, metavar="NUMBER", help=setting.description)
    add(
        "--confirm",
        type=int,
        metavar="N",
        help="repeat cases that look worse than the baseline N times; only what this confirms is a regression",
    )
    for name, form in FILES.items():
        add(f"--{name}", type=Path, metavar="FILE", help=f"write the results as {form}")
    add("--markdown", type=Path, metavar="FILE", help="write a summary for a pull request")
    add("--url", metavar="URL", help="address of a DevUI with these runs, for links (default: $DEVUI_URL)")


def read_gate(options: dict[str, Any]) -> Gate:
    """Return the gate that the options describe; also check the other options of results.

    Raises:
        BadInput: a setting is invalid, the address for links is not one of a web server, a file cannot be written, or
            nothing can be confirmed.
    """
    _link_address(options)
    for name in (*FILES, "markdown"):
        if options[name]:
            require_writable(options[name], name)
    gate = Gate(
        options["baseline"] or "",
        options["fail_on"] or "",
        options["allow_no_baseline"],
        gate_settings.read_options(options),
    )
    if options["confirm"] is not None:
        _check_confirm(options, gate)
    return gate


def _check_confirm(options: dict[str, Any], gate: Gate) -> None:
    check_confirming_repetitions(options["confirm"])
    if gate == NO_GATE or options.get("shard"):
        raise BadInput(
            "--confirm needs a baseline to find cases that look worse, and cannot be given for a shard.",
            hint="For example --baseline previous --fail-on regression --confirm 5.",
        )


def refuse_options(options: dict[str, Any], reason: str) -> None:
    """Refuse options of a gate and files, for which there is no run.

    Raises:
        BadInput: one is given.
    """
    names = ("baseline", "fail_on", "confirm", *GateConfig.model_fields, *FILES, "markdown")
    if given := list_given_options(options, names):
        raise BadInput(reason, hint=f"Leave out {given}.")


def list_given_options(options: dict[str, Any], names: Sequence[str]) -> str:
    """Return those of some options that are given, as they are spelled, for a message; "" if there are none."""
    return ", ".join(option_name(name) for name in names if options[name])


def report(
    runs: Sequence[EvalRun],
    gate: Gate,
    options: dict[str, Any],
    console: Console,
    not_compared: str = "",
) -> int:
    """Judge ended runs, write the files and the comparison with a baseline; return the exit code.

    A shard that could run is no failure: all shards are judged together.

    Args:
        not_compared: why the earlier runs could not be used, in lines; empty: they could.
    """
    for run in runs:
        console.write_retries(run)
        console.write_unused_fixtures(run)
    gate = replace(gate, not_compared=not_compared)
    results = [gate.judge(run) for run in runs]
    _write_files(results, options, console)
    if any(run.status in NOT_RUN for run in runs):
        return COULD_NOT_RUN
    if any(run.shard for run in runs):
        return 0
    for result in results:
        console.write_figures(result)
        if gate != NO_GATE or GATE in json.loads(result.run.config):
            console.write_gate_result(result)
    if gate != NO_GATE and options["confirm"]:
        console.write_unrepeated_cases(results)
    return find_worst_result(results).exit_code if results else 0


def write_stopped_runs(
    runs: Sequence[EvalRun], gate: Gate, options: dict[str, Any], console: Console
) -> None:
    """Write the files of runs that a signal stopped: what there is, without a comparison.

    A run that had ended is not compared either: the gate did not see what it was waiting for.
    """
    results = []
    for run in runs:
        if run.status == EvalRun.Status.DONE:
            result = NO_GATE.judge(run)
            is_undecided = gate != NO_GATE and result.status == GateStatus.FAILED
            results.append(replace(result, fails=[], not_compared=STOPPED) if is_undecided else result)
        else:
            reason = f"The run was stopped: {run.cancelled:,} of {run.total:,} attempts were cancelled."
            results.append(GateResult(run, fails=[reason]))
    _write_files(results, options, console)


def _write_files(results: Sequence[GateResult], options: dict[str, Any], console: Console) -> None:
    if not any(options[name] for name in (*FILES, "markdown")):
        return
    from evals_app.analysis.exports import junit, markdown, run_csv, run_json

    runs = [run for result in results for run in (result.run, *list_variant_runs(result.run))]
    render: dict[str, Callable[[], str]] = {
        "junit": lambda: junit.as_junit(results),
        "json": lambda: run_json.as_json(runs),
        "csv": lambda: run_csv.as_csv(runs),
        "html": lambda: _html_page(runs),
        "markdown": lambda: markdown.as_markdown(results, _link_address(options)),
    }
    for name, text in render.items():
        if path := options[name]:
            _write_file(path, text())
            console.write_path(name, path)


def _html_page(runs: Sequence[EvalRun]) -> str:
    from evals_app.analysis.exports import html_page  # it imports what pages show

    return html_page.as_html(runs)


def require_writable(path: Path, option: str) -> None:
    """Check that a result file can be written, before runs cost anything.

    Raises:
        BadInput: the file cannot be written, or is the standard output (`-`).
    """
    if str(path) == "-":
        raise BadInput(f"--{option} needs a file.", hint="Progress is written to the standard output.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()  # of a link that may be dead
        reason = os.strerror(errno.EISDIR) if target.is_dir() else ""
        if not target.parent.is_dir():
            reason = os.strerror(errno.ENOENT)
        elif not reason and not os.access(target if target.exists() else target.parent, os.W_OK):
            reason = os.strerror(errno.EACCES)
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise BadInput(f"{path} cannot be written: {reason}.", hint=f"Name another file for --{option}.")


def _write_file(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written: {error.strerror}.", hint="The results are in the store."
        ) from error


def _link_address(options: dict[str, Any]) -> str:
    """Return the address for links; "" if none is given.

    Raises:
        BadInput: it is not the address of a web server.
    """
    address: str = options["url"] or os.environ.get("DEVUI_URL", "").strip()
    if not address:
        return ""
    if not re.fullmatch(r"https?://[\w.:-]+(?:/[\w./~%-]*)?", address, re.ASCII):
        raise BadInput(
            f"{address!r} is not the address of a DevUI server.", hint="For example https://devui.example.com"
        )
    return address.rstrip("/")
