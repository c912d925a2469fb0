"""Export of runs as one self-contained HTML page. Read-only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.template.loader import render_to_string

from evals_app.analysis import attempt_detail, baselines, case_matrix, retries, run_summary
from evals_app.analysis.exports.run_json import iter_attempts
from evals_app.analysis.run_differences import read_currency
from evals_app.analysis.slices import read_slices
from evals_app.analysis.variant_matrix import read_matrix
from evals_app.models import EvalAttempt, EvalRun
from sessions_app.store.redaction import redact_text, redact_texts

Status = EvalAttempt.Status


def as_html(runs: Iterable[EvalRun]) -> str:
    """Return runs as one self-contained page without scripts and credentials."""
    return redact_text(
        render_to_string("devui/evals/report.html", {"sections": [_run_section(run) for run in runs]})
    )


def case_html(attempt: EvalAttempt) -> str:
    """Return the case of an attempt, with all its repetitions in this run, as one self-contained page.

    Credentials are removed from the texts of the agent and from errors, because the file is made to be sent.
    """
    run = attempt.run
    rows = (
        run.attempts.filter(case_index=attempt.case_index).prefetch_related("results").order_by("repetition")
    )
    details = [attempt_detail.detail(_redact_attempt(row, run), is_complete=False) for row in rows]
    context = {"case_id": attempt.case_id, "run": run, "details": details}
    return render_to_string("devui/evals/report_case.html", context)


def _redact_attempt(attempt: EvalAttempt, run: EvalRun) -> EvalAttempt:
    """Return an attempt of a run without the credentials that its texts quote. The row is not saved."""
    attempt.run = run
    attempt.actual = json.dumps(redact_texts(json.loads(attempt.actual)))
    for name in ("error", "traceback", "note"):
        setattr(attempt, name, redact_text(getattr(attempt, name)))
    for result in attempt.results.all():
        result.reason = redact_text(result.reason)
        result.details = json.dumps(redact_texts(json.loads(result.details)))
    return attempt


def _run_section(run: EvalRun) -> dict[str, Any]:
    baseline = baselines.find_marked_run(run)
    against = baselines.compare_runs(baseline, run) if baseline else None
    order = sorted(iter_attempts(run), key=lambda attempt: -case_matrix.SEVERITY[Status(attempt.status)])
    return {
        "run": run,
        "summary": run_summary.summary(run),
        "tally": case_matrix.tally(run),
        "retries": retries.find_retries(run),
        "bar": run_summary.bar(run),
        "groups": case_matrix.matrix(run, size=max(1, run.total)).groups,
        "columns": run_summary.metric_columns(run),
        "baseline": baseline,
        "against": against,
        "variants": read_matrix(run),
        "slices": read_slices(run, against),
        "currency": read_currency(run),
        "models": json.loads(run.agent_models),
        "warnings": json.loads(run.warnings),
        "details": [
            attempt_detail.detail(_redact_attempt(attempt, run), is_complete=False) for attempt in order
        ],
    }
