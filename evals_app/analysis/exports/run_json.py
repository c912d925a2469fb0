"""Export of runs as JSON. Read-only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from evals_app.analysis import case_matrix, fixture_use, retries, run_summary
from evals_app.analysis.slices import read_slices
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.runs.variant_orders import list_variant_runs

CHUNK = 200
"""Attempts that are read at once."""


def as_json(runs: Iterable[EvalRun]) -> str:
    """Return runs with their attempts, scores and errors as JSON text: {"runs": […]}."""
    return json.dumps({"runs": [_run_json(run) for run in runs]}, indent=2, ensure_ascii=False)


def run_json(run: EvalRun) -> str:
    """Return one run with its attempts, scores and errors as JSON text."""
    return json.dumps(_run_json(run), ensure_ascii=False)


def _run_json(run: EvalRun) -> dict[str, Any]:
    later_tries = retries.read_later_tries(run)
    fixtures = fixture_use.read_run_fixtures(run)
    return {
        **run_facts(run),
        "rate": rate_json(case_matrix.tally(run)),
        "retries": retries_json(run),
        "unused_fixtures": list(fixtures.unused) if fixtures else [],
        "slices": [tagged.as_json() for tagged in read_slices(run)],
        "variants": variants_json(run),
        "attempts": [
            attempt_json(attempt, later_tries.get((attempt.case_index, attempt.repetition), ()))
            for attempt in iter_attempts(run)
        ],
    }


def retries_json(run: EvalRun) -> dict[str, Any] | None:
    """Return the runs that tried attempts of a run again, and how many attempts passed in any try; None without any."""
    tried_again = retries.find_retries(run)
    if tried_again is None:
        return None
    return {"passed": tried_again.passed, "runs": [retry.id for retry in tried_again.runs]}


def _later_try_json(attempt: EvalAttempt) -> dict[str, Any]:
    """Return a later try of an attempt. It counts in nothing."""
    return {
        "run": attempt.run_id,
        "id": attempt.pk,
        "status": attempt.status,
        "cause": attempt.cause,
        "session": attempt.session_id,
    }


def rate_json(tally: case_matrix.Tally) -> dict[str, Any]:
    """Return how the cases did: their pass rate with its interval (95 %, Wilson), and pass^k by k."""
    interval = tally.rate.interval
    return {
        "cases": tally.rate.total,
        "passed": tally.rate.value,
        "interval": [interval.low, interval.high],
        "pass_hat_k": {str(k): chance for k, chance in tally.reliable},
        "flaky": tally.flaky,
    }


RUN_COLUMNS = (
    *("id", "status", "config_source", "shard", "num_runs", "parallelism", "code_version", "git_revision"),
    *("adk_version", "baseline", "baseline_person", "note", "note_person", "resumed", "stopped_because"),
    *("source", "person"),
    *("created_at", "started_at", "finished_at"),
)
RUN_JSON_COLUMNS = ("config", "case_ids", "warnings", "policy", "limits", "prices")
RUN_COUNTS = ("total", "passed", "failed", "incomplete", "cancelled")


def run_facts(run: EvalRun) -> dict[str, Any]:
    """Return the facts of a run without its attempts."""
    return {
        **{name: getattr(run, name) for name in RUN_COLUMNS},
        **{name: json.loads(getattr(run, name)) for name in RUN_JSON_COLUMNS},
        "app": run.app_name,
        "evalset": run.evalset.evalset_id,
        "path": run.evalset.path,
        "counts": {**{name: getattr(run, name) for name in RUN_COUNTS}, "error": run.errors},
        "evalset_digest": run.version.digest,
        "models": json.loads(run.agent_models),
        "repeats": run.repeats_id,
        "variant": variant_json(run),
        "error": _error_json(run.error_type, run.error, run.traceback),
    }


def variant_json(run: EvalRun) -> dict[str, Any] | None:
    """Return the variant of a run, its hash and the id of the original's run; None for a run of the original."""
    if not run.variant:
        return None
    return {**json.loads(run.variant), "hash": run.variant_hash, "original_run": run.variant_of_id}


def variants_json(run: EvalRun) -> list[dict[str, str]]:
    """Return the runs of the variants that are compared with a run; empty without any."""
    return [
        {
            "run": row.pk,
            "name": json.loads(row.variant)["name"],
            "hash": row.variant_hash,
            "status": row.status,
        }
        for row in list_variant_runs(run)
    ]


ATTEMPT_COLUMNS = (
    *("case_index", "repetition", "status", "realm", "tries", "seconds", "waited_seconds"),
    *("model_seconds", "total_tokens", "cost", "cause", "note", "note_person", "stopped_because"),
)


def attempt_facts(attempt: EvalAttempt) -> dict[str, Any]:
    """Return the facts of an attempt without its turns."""
    return {
        **{name: getattr(attempt, name) for name in ATTEMPT_COLUMNS},
        "id": attempt.pk,
        "case": attempt.case_id,
        "session": attempt.session_id,
        "earlier": attempt.earlier_tries,
        "by_model": json.loads(attempt.by_model),
        "judges": json.loads(attempt.judge),
        "fixture_answers": json.loads(attempt.fixture_answers),
        "error": _error_json(attempt.error_type, attempt.error, attempt.traceback),
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
        "details": run_summary.result_details(result),
    }


def attempt_json(attempt: EvalAttempt, later_tries: Sequence[EvalAttempt] = ()) -> dict[str, Any]:
    """Return an attempt with its scores, its actual turns and its later tries in other runs."""
    return {
        **attempt_facts(attempt),
        "later": [_later_try_json(later_try) for later_try in later_tries],
        "metrics": [metric_json(result) for result in sorted_results(attempt)],
        "actual": json.loads(attempt.actual),
    }


def iter_attempts(run: EvalRun) -> Iterator[EvalAttempt]:
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


def _error_json(kind: str, message: str, traceback: str) -> dict[str, str] | None:
    return {"type": kind, "message": message, "traceback": traceback} if message else None
