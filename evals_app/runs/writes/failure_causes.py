"""The cause of a failed attempt, stored when it ends so that pages can group by it."""

from __future__ import annotations

import json

from evals_app.cases import version_contents
from evals_app.metrics import causes
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.writes.outcomes import Outcome
from sessions_app.delivery.failure import NO_FAILURE

Status = EvalAttempt.Status


def find_failure_cause(attempt: EvalAttempt, outcome: Outcome) -> str:
    """Return why an attempt did not pass; "" if it did."""
    if outcome.status not in {Status.FAILED, Status.ERROR, Status.INCOMPLETE}:
        return ""
    failure = outcome.failure or NO_FAILURE
    summaries = [
        causes.MetricSummary(score.metric, score.status, score.reason, score.details)
        for score in outcome.scores
        if score.invocation is None
    ]
    error = (failure.type, failure.message)
    return causes.explain_outcome(
        outcome.status, _read_expectation(attempt, outcome.status), outcome.actual, summaries, error
    )


def _read_expectation(attempt: EvalAttempt, status: str) -> causes.Expectation:
    if status != Status.FAILED:
        return causes.Expectation()
    facts = EvalRun.objects.values_list("config", "version", "version__digest").get(pk=attempt.run_id)
    config, version, digest = facts
    cases = version_contents.read_cases(version, digest)
    case = cases[attempt.case_index] if attempt.case_index < len(cases) else {}
    return causes.Expectation(case.get("conversation") or [], json.loads(config).get("criteria") or {})
