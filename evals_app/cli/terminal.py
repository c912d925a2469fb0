"""Progress of a run on a terminal, and as plain lines in a CI log."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from evals_app.analysis import fixture_use, retries, run_summary
from evals_app.analysis.case_verdicts import MIN_CONFIRMING_HISTORY
from evals_app.analysis.ci_gate import GateResult
from evals_app.analysis.figure_text import describe_amounts, describe_scores, describe_slice
from evals_app.analysis.reasons import group_failures, group_reasons, name_runs
from evals_app.analysis.run_differences import read_currency
from evals_app.analysis.slices import read_slices
from evals_app.analysis.variant_matrix import VariantMatrix
from evals_app.cli.terminal_text import LineWriter, Output, as_single_line, pad_to_columns, shorten
from evals_app.cli.variant_results import format_matrix
from evals_app.metrics.score_text import describe_score, format_score
from evals_app.models import RETRY, EvalAttempt, EvalRun, MetricResult
from evals_app.runs.progress import elapsed_seconds, format_estimate, time_left
from evals_app.runs.writes.outcomes import Outcome
from evals_app.variants.variant import read_run_variant
from sessions_app.store.database.stopwatch import Stopwatch
from sessions_app.store.short_texts import join_names

Status = EvalAttempt.Status

NAME_WIDTH = 40
MAX_NAME_LENGTH = 120
MAX_DETAIL_LENGTH = 600
"""Maximum characters of a case's name and of an attempt's details. Result files are not truncated."""

COLOURS = {Status.PASSED: "32", Status.FAILED: "31", Status.ERROR: "31", Status.INCOMPLETE: "33"}


class Console:
    """Writes a line for every ended attempt; on a terminal, the last line shows the active ones."""

    def __init__(self, out: Output) -> None:
        self._screen = LineWriter(out)
        self._running: dict[int, tuple[EvalAttempt, Stopwatch]] = {}
        self._times: list[float] = []
        self._waiting: set[int] = set()
        self._before = 0
        self._has_died = False
        self._run: EvalRun | None = None

    def begin(self, run: EvalRun, alone: int) -> None:
        """Write the head of a run."""
        self._run, self._before = run, run.finished
        self._times.clear()
        self._running.clear()
        self._waiting.clear()
        if not (self._has_died and run.resumed):
            self._write_head(run)
        if run.resumed:
            remaining = run.total - run.finished
            message = f"  run {run.id} continues: {remaining} of {run.total} attempts are left"
            self._write_line(f"{message}{_in_flight(alone) if alone else ''}")

    def _write_head(self, run: EvalRun) -> None:
        """Write the cases and metrics of a run."""
        metrics = ", ".join(
            f"{column.name} ≥ {format_score(column.threshold)}" for column in run_summary.metric_columns(run)
        )
        self._write_line(f"{run.evalset.path}: {_describe_extent(run)}")
        self._write_line(f"  {metrics or 'no metric with a verdict'} ({run.config_source})")
        for warning in json.loads(run.warnings):
            self._write_line(warning, "warning", "33")

    def attempt(self, attempt: EvalAttempt, outcome: Outcome | None) -> None:
        """Write an attempt's end, or update the last line."""
        if outcome is None:
            self._running.setdefault(attempt.pk, (attempt, Stopwatch()))
            self._note_wait(attempt)
            return self._write_status()
        self._waiting.discard(attempt.pk)
        _, stopwatch = self._running.pop(attempt.pk, (attempt, None))
        took = stopwatch.seconds if stopwatch else attempt.seconds or 0.0
        self._times.append(took)
        again = f"  (try {attempt.tries})" if attempt.tries > 1 else ""
        waited = f"  (waited {attempt.waited_seconds:.1f} s for models)" if attempt.waited_seconds else ""
        result = shorten(_outcome_text(outcome), MAX_DETAIL_LENGTH)
        message = f"{self._attempt_name(attempt)} {took:6.2f} s  {result}{again}{waited}".rstrip()
        self._write_line(message, f"{outcome.status:<10}", COLOURS.get(Status(outcome.status), ""))
        return self._write_status()

    def _note_wait(self, attempt: EvalAttempt) -> None:
        """Write why the first attempt waits; further waits are shown on the last line of a terminal."""
        if attempt.waits_for and not self._waiting:
            self._write_line(
                f"{_case_name(attempt)}: {_wait_text(attempt, MAX_DETAIL_LENGTH)}", "waits", "33"
            )
        (self._waiting.add if attempt.waits_for else self._waiting.discard)(attempt.pk)

    def end(self, run: EvalRun) -> None:
        """Write the result of a run."""
        self._run = None
        if run.status in {EvalRun.Status.FAILED, EvalRun.Status.CRASHED}:
            self._write_line(f"{run.error_type}: {run.error}", "could not run", "31")
            if run.hint:
                self._write_line(f"  {run.hint}")
            return
        counts = (
            ("failed", run.failed),
            ("error", run.errors),
            ("incomplete", run.incomplete),
            ("cancelled", run.cancelled),
        )
        other_counts = "".join(f", {count} {name}" for name, count in counts if count)
        took = elapsed_seconds(run) or 0.0
        self._write_line(f"  {run.passed} of {run.total} passed{other_counts} in {took:.1f} s (run {run.id})")
        if run.status == EvalRun.Status.STOPPED:
            self._write_line(f"{run.stopped_because} To continue: --resume {run.id}", "stopped", "33")

    def write_figures(self, result: GateResult) -> None:
        """Write scores, amounts and slices of a run, with the earlier ones if there is a comparison."""
        run = result.run
        self._write_line(f"{run.evalset.path}: {describe_amounts(run, read_currency(run))}")
        for metric, text in describe_scores(run, result.comparison).items():
            self._write_line(f"  {metric}: {text}")
        for tagged in read_slices(run, result.comparison):
            self._write_line(f"  tag {tagged.tag}: {describe_slice(tagged)}")

    def write_confirmation(self, runs: Sequence[EvalRun]) -> None:
        """Write which cases are repeated because they look worse than the baseline."""
        for run in runs:
            names = shorten(as_single_line(", ".join(json.loads(run.case_ids))), MAX_DETAIL_LENGTH)
            self._write_line(
                f"{names}: worse than the baseline, repeated {run.num_runs} times to confirm", "confirms"
            )

    def write_retries(self, run: EvalRun) -> None:
        """Write how many attempts of a run passed at first and after retries, if any were retried."""
        if tried_again := retries.find_retries(run):
            self._write_line(f"{run.evalset.path}: {tried_again.text} (run {run.id}). First outcomes count.")

    def write_unused_fixtures(self, run: EvalRun) -> None:
        """Write the unused fixtures of a run, if there are any."""
        fixtures = fixture_use.read_run_fixtures(run)
        if fixtures and fixtures.unused:
            self._write_detail(f"{run.evalset.path}: {join_names(fixtures.unused)}", "unused", "33")

    def write_gate_result(self, result: GateResult) -> None:
        """Write the comparison of a run with its baseline, and why the build fails."""
        if result.reference is None or result.comparison is None:
            self._write_line(f"{result.run.evalset.path}: no run to compare with")
        else:
            counts = ", ".join(f"{count} {verdict}" for verdict, count in result.comparison.counts.items())
            runs = name_runs(result.reference)
            self._write_line(f"{result.run.evalset.path} against {runs}: {counts}")
            self._write_suspicions(result)
        for reason in group_failures(result):
            self._write_detail(reason, "fails", "31")
        if result.not_compared:
            self._write_detail(result.not_compared, "not compared", "33")
        self._write_detail(result.title)

    def _write_suspicions(self, result: GateResult) -> None:
        """Write why runs cannot be compared, and which unclear cases look worse, except those that fail the build."""
        if result.comparison is None:
            return
        for note in result.comparison.notes:
            self._write_line(f"  {note}")
        fails = group_failures(result)
        for doubt in group_reasons(result.comparison.suspicious):
            if doubt not in fails:
                self._write_detail(doubt, "unclear", "33")

    def write_matrix(self, matrix: VariantMatrix) -> None:
        """Write the outcomes of the original and its variants, case by case."""
        self.write_lines(format_matrix(matrix))

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write lines as they are."""
        for line in lines:
            self._write_line(line)

    def write_unrepeated_cases(self, results: Sequence[GateResult]) -> None:
        """Write the number of unclear cases that `--confirm` did not repeat, and why."""
        comparisons = [result.comparison for result in results if result.comparison]
        cases = [case for comparison in comparisons for case in comparison.suspicious if not case.can_confirm]
        if cases:
            self._write_line(
                f"Unclear cases that were not repeated: {len(cases)}. A case is repeated if it fell since the baseline"
                f" and has {MIN_CONFIRMING_HISTORY} outcomes of other earlier runs."
            )

    def write_death(self, how: str) -> None:
        """Write that the agent's process ended; progress is shown by the next one."""
        self._has_died = True
        self._write_line(f"The process of the agent ended ({how}).", "died", "31")

    def write_interruption(self, agent_dir: Path, runs: Sequence[EvalRun]) -> None:
        """Write the result of interrupted runs, and how to resume them."""
        for run in runs:
            if run.status == EvalRun.Status.CANCELLED:
                self.end(run)
                self._write_line(
                    f"Interrupted. To continue: run_evals {_shell_argument(agent_dir)} --resume {run.id}"
                )

    def write_path(self, kind: str, path: Path) -> None:
        """Write the path of a result file."""
        self._write_line(f"{kind}: {path}")

    def _attempt_name(self, attempt: EvalAttempt) -> str:
        run = self._run or attempt.run
        name = _case_name(attempt)
        return pad_to_columns(f"{name} #{attempt.repetition}" if run.num_runs > 1 else name, NAME_WIDTH)

    def _write_detail(self, text: str, mark: str = "", colour: str = "") -> None:
        self._write_line(shorten(as_single_line(text), MAX_DETAIL_LENGTH), mark, colour)

    def _write_line(self, text: str, mark: str = "", colour: str = "") -> None:
        self._screen.line(text, mark, colour)

    def _write_status(self) -> None:
        if self._run is None:
            return
        ended = self._before + len(self._times)
        names = ", ".join(_running_name(attempt) for attempt, _ in self._running.values())
        going_on = f" · {names}" if names else ""
        self._screen.status(
            f"  {ended} of {self._run.total}{self._time_left(self._run.total - ended)}{going_on}"
        )

    def _time_left(self, open_attempts: int) -> str:
        """Return the estimated remaining time as text; "" if unknown."""
        if not self._times or self._run is None:
            return ""
        ages = [stopwatch.seconds for _, stopwatch in self._running.values()]
        mean = sum(self._times) / len(self._times)
        seconds = time_left(mean, open_attempts - len(ages), ages, self._run.parallelism)
        return "" if seconds is None else f" · about {format_estimate(seconds)} left"


def _describe_extent(run: EvalRun) -> str:
    """Return the number of cases and repetitions of a run; of a retry, its attempts and the run of their outcomes."""
    variant = read_run_variant(run)
    name = f", variant {variant.name!r}" if variant else ""
    if run.source == RETRY:
        return f"{run.total} attempt{'s' * (run.total != 1)} of run {run.repeats_id} again{name}"
    cases = run.total // run.num_runs
    return f"{cases} case{'s' * (cases != 1)}{f' × {run.num_runs}' if run.num_runs > 1 else ''}{name}"


def _case_name(attempt: EvalAttempt) -> str:
    """Return a case's name, safe for a terminal and shortened."""
    return shorten(as_single_line(attempt.case_id), MAX_NAME_LENGTH)


def _shell_argument(folder: Path) -> str:
    """Return a folder as a shell argument: quoted, and never read as an option."""
    return shlex.quote(f"./{folder}" if str(folder).startswith("-") else str(folder))


def _running_name(attempt: EvalAttempt) -> str:
    """Return the name of a running case, and what it waits for."""
    waits = f" (waits: {_wait_text(attempt, MAX_NAME_LENGTH)})" if attempt.waits_for else ""
    return f"{_case_name(attempt)}{waits}"


def _wait_text(attempt: EvalAttempt, length: int) -> str:
    return shorten(" ".join(attempt.waits_for.split()), length)


def _in_flight(alone: int) -> str:
    """Return how many attempts of a resumed run were in flight when a process died."""
    return f"; {alone} {'was' if alone == 1 else 'were'} in flight and {'runs' if alone == 1 else 'run'} again, alone"


def _outcome_text(outcome: Outcome) -> str:
    """Return the result of an attempt in one line."""
    if outcome.failure is not None:
        return f"{outcome.failure.type}: {' '.join(outcome.failure.message.split())}"
    overall = [score for score in outcome.scores if score.invocation is None]
    return "  ".join(
        describe_score(score) for score in overall if score.status != MetricResult.Status.INFORMATIONAL
    )
