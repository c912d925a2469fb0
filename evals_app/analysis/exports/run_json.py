"""Export of runs as JSON. Read-only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from evals_app.analysis import report
from evals_app.metrics.score_text import format_score
from evals_app.models import EvalAttempt, EvalRun, MetricResult

CHUNK = 200
"""Attempts that are read at once."""


def as_json(runs: Iterable[EvalRun]) -> str:
    """Return runs with their attempts, scores and errors as JSON text: {"runs": […]}."""
    return json.dumps({"runs": [_run_json(run) for run in runs]}, indent=2, ensure_ascii=False)


def run_json(run: EvalRun) -> str:
    """Return one run with its attempts, scores and errors as JSON text."""
    return json.dumps(_run_json(run), ensure_ascii=False)


def _run_json(run: EvalRun) -> dict[str, Any]:
    return {
        **run_facts(run),
        "rate": _rate_json(report.tally(run)),
        "attempts": [attempt_json(attempt) for attempt in attempts_of(run)],
    }


def _rate_json(tally: report.Tally) -> dict[str, Any]:
    """Return how the cases did: their pass rate with its interval (95 %, Wilson), and pass^k by k."""
    interval = tally.rate.interval
    return {
        "cases": tally.rate.total,
        "passed": tally.rate.value,
        "interval": [interval.low, interval.high],
        "pass_hat_k": {str(k): chance for k, chance in tally.reliable},
        "flaky": tally.mixed,
    }


def run_facts(run: EvalRun) -> dict[str, Any]:
    """Return the facts of a run without its attempts."""
    return {
        "id": run.id,
        "app": run.app_name,
        "evalset": run.evalset.evalset_id,
        "path": run.evalset.path,
        "status": run.status,
        "counts": {
            "total": run.total,
            "passed": run.passed,
            "failed": run.failed,
            "error": run.errors,
            "incomplete": run.incomplete,
            "cancelled": run.cancelled,
        },
        "config": json.loads(run.config),
        "config_source": run.config_source,
        "case_ids": json.loads(run.case_ids),
        "num_runs": run.num_runs,
        "parallelism": run.parallelism,
        "warnings": json.loads(run.warnings),
        "evalset_digest": run.version.digest,
        "code_version": run.code_version,
        "git_revision": run.git_revision,
        "adk_version": run.adk_version,
        "models": json.loads(run.agent_models),
        "policy": json.loads(run.policy),
        "limits": json.loads(run.limits),
        "prices": json.loads(run.prices),
        "baseline": run.baseline,
        "note": run.note,
        "resumed": run.resumed,
        "stopped_because": run.stopped_because,
        "source": run.source,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "error": _error(run.error_type, run.error, run.traceback),
    }


def attempt_facts(attempt: EvalAttempt) -> dict[str, Any]:
    """Return the facts of an attempt without its turns."""
    return {
        "id": attempt.pk,
        "case": attempt.case_id,
        "case_index": attempt.case_index,
        "repetition": attempt.repetition,
        "status": attempt.status,
        "session": attempt.session_id,
        "realm": attempt.realm,
        "tries": attempt.tries,
        "earlier": attempt.tried_before,
        "seconds": attempt.seconds,
        "waited_seconds": attempt.waited_seconds,
        "model_seconds": attempt.model_seconds,
        "total_tokens": attempt.total_tokens,
        "by_model": json.loads(attempt.by_model),
        "judges": json.loads(attempt.judge),
        "cost": attempt.cost,
        "cause": attempt.cause,
        "note": attempt.note,
        "stopped_because": attempt.stopped_because,
        "error": _error(attempt.error_type, attempt.error, attempt.traceback),
    }


def metric_json(result: MetricResult) -> dict[str, Any]:
    """Return one score; `turn` counts from 1, null is the whole attempt."""
    return {
        "metric": result.metric,
        "turn": None if result.invocation is None else result.invocation + 1,
        "score": result.score,
        "threshold": result.threshold,
        "status": result.status,
        "reason": result.reason,
        "details": report.details_of(result),
    }


def attempt_json(attempt: EvalAttempt) -> dict[str, Any]:
    """Return an attempt with its scores and actual turns."""
    return {
        **attempt_facts(attempt),
        "metrics": [metric_json(result) for result in sorted_results(attempt)],
        "actual": json.loads(attempt.actual),
    }


def failure_reason(result: MetricResult) -> str:
    """Return why a metric did not pass, in one line."""
    if result.status == MetricResult.Status.NOT_EVALUATED:
        return f"{result.metric}: {' '.join(result.reason.split())}"
    return f"{result.metric} {format_score(result.score)} < {format_score(result.threshold)}"


def attempts_of(run: EvalRun) -> Iterator[EvalAttempt]:
    """Yield the attempts of a run with their related rows, in file order."""
    rows = run.attempts.prefetch_related("results").order_by("case_index", "repetition")
    for attempt in rows.iterator(chunk_size=CHUNK):
        attempt.run = run  # one object: each row would bring the whole evalset along
        yield attempt


def sorted_results(attempt: EvalAttempt) -> list[MetricResult]:
    """Return the results of an attempt by metric, the overall score before the turns."""
    return sorted(
        attempt.results.all(),
        key=lambda result: (result.position, -1 if result.invocation is None else result.invocation),
    )


def _error(kind: str, message: str, traceback: str) -> dict[str, str] | None:
    return {"type": kind, "message": message, "traceback": traceback} if message else None
