"""Export of runs as one self-contained HTML page. Read-only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.template.loader import render_to_string

from evals_app.analysis import attempt_detail, baselines, case_matrix, run_summary
from evals_app.analysis.exports.run_json import attempts_of
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import prices

Status = EvalAttempt.Status


def as_html(runs: Iterable[EvalRun]) -> str:
    """Return runs as one self-contained page without scripts."""
    return render_to_string("devui/evals/report.html", {"sections": [_section(run) for run in runs]})


def _section(run: EvalRun) -> dict[str, Any]:
    baseline = baselines.baseline_of(run)
    order = sorted(attempts_of(run), key=lambda attempt: -case_matrix.SEVERITY[Status(attempt.status)])
    return {
        "run": run,
        "summary": run_summary.summary(run),
        "tally": case_matrix.tally(run),
        "bar": run_summary.bar(run),
        "groups": case_matrix.matrix(run, size=max(1, run.total)).groups,
        "columns": run_summary.columns_of(run),
        "baseline": baseline,
        "against": baselines.compare_runs(baseline, run) if baseline else None,
        "currency": prices.prices_from_json(json.loads(run.prices)).currency,
        "models": json.loads(run.agent_models),
        "warnings": json.loads(run.warnings),
        "details": [attempt_detail.detail(attempt, whole=False) for attempt in order],
    }
