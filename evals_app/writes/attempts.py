"""One attempt: it starts once and ends once, with its scores."""

from __future__ import annotations

import time

from django.db import transaction

from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.writes.counting import next_revision
from evals_app.writes.outcomes import Failure, Outcome, Score
from sessions_app import bell, state

UNFINISHED = (EvalAttempt.Status.PENDING, EvalAttempt.Status.RUNNING)

MEASURED = ("total_tokens", "prompt_tokens", "output_tokens", "cached_tokens", "cost", "model_seconds")
"""What an outcome measures, by the names that the attempt's columns have too."""


def start_attempt(attempt_pk: int) -> bool:
    """Turn a pending attempt into a running one; False when it is not pending (any more)."""
    with transaction.atomic():
        attempt = _locked(attempt_pk)
        if attempt.status != EvalAttempt.Status.PENDING:
            return False
        attempt.status = EvalAttempt.Status.RUNNING
        attempt.started_at = time.time()
        attempt.tries += 1
        attempt.revision = next_revision(attempt.run_id)
        attempt.save(update_fields=["status", "started_at", "tries", "revision"])
        bell.ring_after_commit()
    return True


def finish_attempt(attempt_pk: int, outcome: Outcome) -> bool:
    """Keep how an attempt ended, with its scores; False when it had ended already."""
    with transaction.atomic():
        attempt = _locked(attempt_pk)
        if attempt.status not in UNFINISHED:
            return False
        failure = outcome.failure or Failure("", "")
        attempt.status = outcome.status
        attempt.finished_at = time.time()
        attempt.session_id = outcome.session_pk
        keep_outcome(attempt, outcome)
        attempt.error_type = failure.type
        attempt.error = state.clean_text(failure.message)
        attempt.traceback = state.clean_text(failure.traceback)
        attempt.revision = next_revision(attempt.run_id, counting=outcome.status)
        attempt.save()
        MetricResult.objects.bulk_create(result_row(attempt_pk, score) for score in outcome.scores)
        bell.ring_after_commit()
    return True


def keep_outcome(attempt: EvalAttempt, outcome: Outcome) -> None:
    """Give a row what was measured of its attempt and what the agent did, not yet stored."""
    for name in MEASURED:
        setattr(attempt, name, getattr(outcome, name))
    attempt.actual = state.canonical(list(outcome.actual)).public
    attempt.by_model = state.dumps(dict(outcome.by_model))
    attempt.judge = state.dumps(dict(outcome.judge))
    attempt.differences = state.canonical(list(outcome.differences)).public


def _locked(attempt_pk: int) -> EvalAttempt:
    """Return an attempt under the lock of its run: the run first, always, so that writers never deadlock."""
    run_id = EvalAttempt.objects.values_list("run_id", flat=True).get(pk=attempt_pk)
    EvalRun.objects.select_for_update().only("pk").get(pk=run_id)
    return EvalAttempt.objects.get(pk=attempt_pk)


def result_row(attempt_pk: int, score: Score) -> MetricResult:
    """Return the row of a score, not yet stored."""
    return MetricResult(
        attempt_id=attempt_pk,
        position=score.position,
        metric=score.metric,
        invocation=score.invocation,
        score=score.score,
        threshold=score.threshold,
        status=score.status,
        reason=state.clean_text(score.reason),
        details=state.canonical(dict(score.details)).public,
    )
