"""Writes that start and end one try of an attempt, with its scores."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, transaction
from django.db.models import QuerySet

from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.runs.writes.failure_causes import find_failure_cause
from evals_app.runs.writes.model_usage import with_spending
from evals_app.runs.writes.outcomes import MetricScore, Outcome
from evals_app.runs.writes.revisions import count_attempt_end, next_attempt_revision
from sessions_app.delivery.failure import NO_FAILURE, Failure
from sessions_app.delivery.ownership import is_claim
from sessions_app.quotas import quota_enforcement
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.store import scopes
from sessions_app.store.database import change_notification
from sessions_app.store.database.compiled_query import CompiledQuery
from sessions_app.store.database.statements import insert_sql
from sessions_app.store.traces import records as traces

OPEN_STATUSES = (EvalAttempt.Status.PENDING, EvalAttempt.Status.RUNNING)
"""Statuses of attempts that have not ended."""

CANCELLED_BY_USER = "It was cancelled by hand."

MEASURED_COLUMNS = (
    "total_tokens",
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
    "cost",
    "model_seconds",
)
"""Measured fields of an outcome, which are also columns of an attempt."""

ATTEMPT_COLUMNS = tuple(field.attname for field in EvalAttempt._meta.concrete_fields)
ENDED_COLUMNS = tuple(column for column in ATTEMPT_COLUMNS if column != "id")
"""Columns that the end of an attempt writes."""

RESULT_COLUMNS = tuple(field.attname for field in MetricResult._meta.concrete_fields if not field.primary_key)
UNUSED_COLUMNS = {"config", "policy", "prices", "warnings", "traceback", "baseline"}
"""Columns of the run of an attempt that are not read with it: they are large, or need a conversion."""

RUN_COLUMNS = tuple(
    field.attname for field in EvalRun._meta.concrete_fields if field.attname not in UNUSED_COLUMNS
)


def _attempt_with_run(pk: int) -> list[QuerySet[EvalAttempt, tuple[Any, ...]]]:
    columns = (*ATTEMPT_COLUMNS, *(f"run__{column}" for column in RUN_COLUMNS))
    return [EvalAttempt.objects.filter(pk=pk).values_list(*columns)]


_ATTEMPT = CompiledQuery(_attempt_with_run, -1)


def start_attempt(
    attempt_pk: int,
    now: float | None = None,
    runtime_id: str | None = None,
    *,
    offered: bool = False,
) -> EvalAttempt | None:
    """Start a pending attempt; return None if it is not pending.

    `now` is the time of the run's stopwatch (`store.database.stopwatch`); None: the clock's, here and below. A call
    with the same time is the same change (`is_claim`).

    Args:
        runtime_id: the process that executes it, if it has a row.
        offered: start it only if its run is active and has given it to the queue (`offers`).
    """
    started_at = time.time() if now is None else now
    with transaction.atomic():
        attempt = _lock_attempt(attempt_pk)
        if is_claim(attempt, runtime_id, started_at):
            return attempt
        if attempt.status != EvalAttempt.Status.PENDING or (offered and not _is_offered(attempt)):
            return None
        attempt.status = EvalAttempt.Status.RUNNING
        attempt.started_at = started_at
        attempt.runtime_id = runtime_id
        attempt.tries += 1
        _save_columns(attempt, "status", "started_at", "runtime_id", "tries", "revision")
        change_notification.notify_after_commit()
    return attempt


def _is_offered(attempt: EvalAttempt) -> bool:
    return attempt.runtime_id == QUEUE_ID and attempt.run.status == EvalRun.Status.RUNNING


def note_waiting(attempt_pk: int, waits_for: str, waited: float, tries: int | None = None) -> None:
    """Store the reason for which a running attempt waits ("" for none) and the seconds that it has waited.

    `tries` as in `finish_attempt`.
    """
    with transaction.atomic():
        attempt = _lock_attempt(attempt_pk)
        if _is_running(attempt, tries):
            attempt.waits_for, attempt.waited_seconds = scopes.clean_text(waits_for), waited
            _save_columns(attempt, "waits_for", "waited_seconds", "revision")
            change_notification.notify_after_commit()


def note_judge(attempt_pk: int, metric: str, tries: int | None = None) -> None:
    """Store the metric that begins to judge an attempt, by a model or code that may end the process.

    `tries` as in `finish_attempt`.
    """
    with transaction.atomic():
        attempt = _lock_attempt(attempt_pk)
        if _is_running(attempt, tries):
            attempt.judged_by = metric
            _save_columns(attempt, "judged_by", "revision")


def _is_running(attempt: EvalAttempt, tries: int | None) -> bool:
    return attempt.status == EvalAttempt.Status.RUNNING and tries in (None, attempt.tries)


def finish_attempt(
    attempt_pk: int, outcome: Outcome, now: float | None = None, tries: int | None = None
) -> bool:
    """Store the outcome and scores of an attempt; return False if it had already ended differently.

    The status `CANCELLED` says that a person cancelled it.

    Args:
        tries: the try that ended so (`EvalAttempt.tries`). If the attempt was reset meanwhile, because this process was
            thought gone, nothing is stored. None: the current one.
    """
    with transaction.atomic():
        attempt = _lock_attempt(attempt_pk)
        was_reset = attempt.status == EvalAttempt.Status.PENDING
        if tries is not None and (was_reset or tries != attempt.tries):
            return False
        finished_at = end_time(attempt, now)
        if attempt.status not in OPEN_STATUSES:
            return attempt.status == outcome.status and attempt.finished_at == finished_at
        _end_attempt(attempt, outcome, finished_at)
        change_notification.notify_after_commit()
    return True


def request_cancel_attempt(attempt_pk: int) -> bool:
    """Request the cancellation of an attempt; a pending one ends here. False if it had ended."""
    with transaction.atomic():
        attempt = _lock_attempt(attempt_pk)
        if attempt.status not in OPEN_STATUSES:
            return False
        if attempt.status == EvalAttempt.Status.PENDING:
            _end_attempt(attempt, Outcome(EvalAttempt.Status.CANCELLED), None)
        attempt.cancel_requested_at = time.time()
        _save_columns(attempt, "cancel_requested_at", "revision")
        change_notification.notify_after_commit()
    return True


def end_time(attempt: EvalAttempt, now: float | None = None) -> float:
    """Return the end of an attempt: not before its start, even if the clock was set back."""
    return max(time.time() if now is None else now, attempt.started_at or 0.0)


def _end_attempt(attempt: EvalAttempt, outcome: Outcome, finished_at: float | None) -> None:
    """End an attempt under its run's lock. `finished_at`: None if it has not started."""
    failure = outcome.failure or NO_FAILURE
    if finished_at is None:
        attempt.runtime_id = None
    attempt.status = outcome.status
    attempt.finished_at = finished_at
    set_outcome(attempt, outcome)
    charge_spending(attempt)
    attempt.error_type = failure.type
    attempt.error = scopes.clean_error(failure.message)
    attempt.traceback = scopes.clean_error(failure.traceback)
    is_cancelled = outcome.status == EvalAttempt.Status.CANCELLED
    attempt.stopped_because = CANCELLED_BY_USER if is_cancelled else ""
    if is_cancelled or outcome.failure is not None:
        close_traces(attempt)
    _save_columns(attempt, *ENDED_COLUMNS)
    count_attempt_end(attempt.run_id, outcome.status)
    _insert_results(result_row(attempt.pk, score) for score in outcome.scores)


def set_outcome(attempt: EvalAttempt, outcome: Outcome) -> None:
    """Set measurements and conversation of an attempt, without saving it."""
    set_spending(attempt, outcome)
    attempt.actual = scopes.canonicalize(list(outcome.actual)).public
    attempt.cause = scopes.clean_text(find_failure_cause(attempt, outcome))
    attempt.judge = scopes.dumps(dict(outcome.judge))
    attempt.differences = scopes.canonicalize(list(outcome.differences)).public
    attempt.fixture_answers = scopes.canonicalize(list(outcome.fixture_answers)).public


def set_spending(attempt: EvalAttempt, outcome: Outcome) -> None:
    """Set session and measurements of an attempt, without saving it."""
    attempt.session_id = outcome.session_pk
    for name in MEASURED_COLUMNS:
        setattr(attempt, name, getattr(outcome, name))
    attempt.by_model = scopes.dumps(dict(outcome.by_model))


def end_try(attempt: EvalAttempt, status: str, failure: Failure, ended_at: float) -> None:
    """End an interrupted try of an attempt with its spending until then, without saving it. Its traces stay open."""
    attempt.status, attempt.finished_at = status, ended_at
    attempt.error_type, attempt.error = failure.type, scopes.clean_error(failure.message)
    set_spending(attempt, with_spending(attempt))
    charge_spending(attempt)


def charge_spending(attempt: EvalAttempt) -> None:
    """Count what an ended try of an attempt has spent for the quotas of the run's person."""
    run = attempt.run
    if run.person:
        quota_enforcement.add_usage(
            run.person, run.app_name, tokens=attempt.total_tokens, cost=attempt.cost or 0.0
        )


def close_traces(attempt: EvalAttempt) -> None:
    """Close the open traces of an attempt that has ended."""
    traces.close_unfinished(attempt.finished_at or time.time(), session__realm=attempt.realm)


def _lock_attempt(attempt_pk: int) -> EvalAttempt:
    """Return an attempt with its next revision, under the lock of its run.

    The run is always locked first, so writers never deadlock and read the result of the last writer.
    """
    revision = next_attempt_revision(attempt_pk)
    [(_, *values)] = _ATTEMPT.rows(attempt_pk)
    attempt = EvalAttempt.from_db(DEFAULT_DB_ALIAS, ATTEMPT_COLUMNS, values[: len(ATTEMPT_COLUMNS)])
    attempt.run = EvalRun.from_db(DEFAULT_DB_ALIAS, RUN_COLUMNS, values[len(ATTEMPT_COLUMNS) :])
    attempt.revision = revision
    return attempt


def _save_columns(attempt: EvalAttempt, *columns: str) -> None:
    """Write columns of an attempt. Django's `save` takes longer than all else that ends an attempt."""
    with connection.cursor() as cursor:
        cursor.execute(_update_sql(columns), [*(getattr(attempt, column) for column in columns), attempt.pk])


@cache
def _update_sql(columns: Sequence[str]) -> str:
    assignments = ", ".join(f"{column} = %s" for column in columns)
    return f"UPDATE {EvalAttempt._meta.db_table} SET {assignments} WHERE id = %s"  # noqa: S608 - our own columns


def _insert_results(rows: Iterable[MetricResult]) -> None:
    values = [[getattr(row, column) for column in RESULT_COLUMNS] for row in rows]
    if values:
        with connection.cursor() as cursor:
            cursor.executemany(insert_sql(MetricResult), values)


def result_row(attempt_pk: int, score: MetricScore) -> MetricResult:
    """Return the row of a score, not saved."""
    return MetricResult(
        attempt_id=attempt_pk,
        position=score.position,
        metric=score.metric,
        invocation=score.invocation,
        score=score.score,
        threshold=score.threshold,
        status=score.status,
        reason=scopes.clean_error(score.reason),
        details=scopes.canonicalize(dict(score.details)).public,
    )
