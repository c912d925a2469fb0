"""Latency of a run's attempts. Read-only."""

from __future__ import annotations

from dataclasses import dataclass

from evals_app.analysis.statistics import percentile
from evals_app.models import EvalRun
from evals_app.runs.attempt_status import HAS_OUTCOME

_COLUMNS = ("run_id", "started_at", "finished_at", "waited_seconds")
"""Columns of an attempt that its duration needs."""


@dataclass(frozen=True)
class LatencyPercentiles:
    """Percentiles of the seconds of a run's attempts with an outcome, without waits for unavailable models."""

    p50: float
    p95: float


def measure_latency(run: EvalRun) -> LatencyPercentiles | None:
    """Return the latency of a run's attempts; None if none with an outcome has a duration."""
    attempts = run.attempts.filter(HAS_OUTCOME).only(*_COLUMNS)
    seconds = [attempt.active_seconds for attempt in attempts]
    known = [duration for duration in seconds if duration is not None]
    return LatencyPercentiles(percentile(known, 0.5), percentile(known, 0.95)) if known else None
