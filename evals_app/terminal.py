"""How a run shows itself on a terminal, and in the plain lines of a CI log."""

from __future__ import annotations

import json
import shutil
import time
from typing import Protocol

from evals_app import report
from evals_app.exports import number
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.writes import Outcome, Score

Status = EvalAttempt.Status

NAME_WIDTH = 40
COLOURS = {Status.PASSED: "32", Status.FAILED: "31", Status.ERROR: "31", Status.INCOMPLETE: "33"}
CLEAR_LINE = "\r\x1b[2K"


class Out(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object:
        """Write text as it is."""

    def flush(self) -> object:
        """Show what was written."""

    def isatty(self) -> bool:
        """Tell whether a person watches."""


class Console:
    """Writes a line for every attempt that has ended; on a terminal a last line says what is going on."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._live = out.isatty()
        self._running: dict[int, str] = {}
        self._ended = 0
        self._run: EvalRun | None = None

    def begin(self, run: EvalRun) -> None:
        """Say what is about to run."""
        self._run, self._ended = run, 0
        self._running.clear()
        cases = run.total // run.num_runs
        times = f" × {run.num_runs}" if run.num_runs > 1 else ""
        metrics = ", ".join(f"{one.name} ≥ {number(one.threshold)}" for one in report.columns_of(run))
        self._line(f"{run.evalset.path}: {cases} case{'s' * (cases != 1)}{times}")
        self._line(f"  {metrics or 'no metric with a verdict'} ({run.config_source})")
        for warning in json.loads(run.warnings):
            self._line(f"  {self._paint('warning', '33')} {warning}")

    def attempt(self, attempt: EvalAttempt, outcome: Outcome | None) -> None:
        """Say that an attempt has started (no outcome yet) or how it has ended."""
        if outcome is None:
            self._running[attempt.pk] = attempt.case_id
            return self._status()
        self._running.pop(attempt.pk, None)
        self._ended += 1
        took = time.time() - (attempt.started_at or time.time())
        mark = self._paint(f"{outcome.status:<10}", COLOURS.get(Status(outcome.status), ""))
        self._line(f"  {mark} {self._name(attempt)} {took:6.2f} s  {_said(outcome)}".rstrip())
        return self._status()

    def end(self, run: EvalRun) -> None:
        """Say what came of it."""
        self._run = None
        if run.status == EvalRun.Status.FAILED:
            self._line(f"  {self._paint('could not run', '31')} {run.error_type}: {run.error}")
            if run.hint:
                self._line(f"  {run.hint}")
            return
        counts = (
            ("failed", run.failed),
            ("error", run.errors),
            ("incomplete", run.incomplete),
            ("cancelled", run.cancelled),
        )
        rest = "".join(f", {count} {name}" for name, count in counts if count)
        took = (run.finished_at or 0.0) - (run.started_at or 0.0)
        self._line(f"  {run.passed} of {run.total} passed{rest} in {took:.1f} s (run {run.id})")

    def _name(self, attempt: EvalAttempt) -> str:
        run = self._run
        name = attempt.case_id
        if run is not None and run.num_runs > 1:
            name = f"{name} #{attempt.repetition}"
        return f"{name:<{NAME_WIDTH}}"

    def _line(self, text: str) -> None:
        self._out.write(f"{CLEAR_LINE if self._live else ''}{text}\n")
        self._out.flush()

    def _status(self) -> None:
        if not self._live or self._run is None:
            return
        width = shutil.get_terminal_size().columns - 1
        names = ", ".join(self._running.values())
        self._out.write(f"{CLEAR_LINE}{f'  {self._ended} of {self._run.total} · {names}'[:width]}")
        self._out.flush()

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._live and colour else text


def _said(outcome: Outcome) -> str:
    if outcome.failure is not None:
        return f"{outcome.failure.type}: {' '.join(outcome.failure.message.split())}"
    overall = [score for score in outcome.scores if score.invocation is None]
    return "  ".join(_score(score) for score in overall if score.status != MetricResult.Status.INFORMATIONAL)


def _score(score: Score) -> str:
    if score.status == MetricResult.Status.NOT_EVALUATED:
        return f"{score.metric}: {' '.join(score.reason.split())}"
    sign = "<" if score.status == MetricResult.Status.FAILED else "≥"
    return f"{score.metric} {number(score.score)} {sign} {number(score.threshold)}"
