"""Statements shared by all changes of a run: they count its revision and its attempts."""

from __future__ import annotations

from django.db import connection

from evals_app.models import EvalAttempt, EvalRun

COUNT_COLUMNS = {
    EvalAttempt.Status.PASSED: "passed",
    EvalAttempt.Status.FAILED: "failed",
    EvalAttempt.Status.ERROR: "errors",
    EvalAttempt.Status.INCOMPLETE: "incomplete",
    EvalAttempt.Status.CANCELLED: "cancelled",
}
"""Final status of an attempt → column of its run that counts it."""


_TAKE = "UPDATE evals_app_evalrun SET revision = revision + 1 WHERE id = %s RETURNING revision"
_TAKE_OF_ATTEMPT = _TAKE.replace("%s", "(SELECT run_id FROM evals_app_evalattempt WHERE id = %s)")
_COUNT = {
    status: "UPDATE evals_app_evalrun SET n = n + 1 WHERE id = %s".replace("n = n", f"{column} = {column}")
    for status, column in COUNT_COLUMNS.items()
}


def next_revision(run_id: str) -> int:
    """Increment and return a run's revision under its row's lock, which holds until the transaction ends.

    Raises:
        EvalRun.DoesNotExist: no such run.
    """
    return _update_revision(_TAKE, run_id)


def next_attempt_revision(attempt_pk: int) -> int:
    """Increment and return the revision of an attempt's run; later reads see the last writer's changes.

    Raises:
        EvalRun.DoesNotExist: no such attempt.
    """
    return _update_revision(_TAKE_OF_ATTEMPT, attempt_pk)


def count_attempt_end(run_id: str, status: str) -> None:
    """Count an attempt that has ended in its run."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT[EvalAttempt.Status(status)], [run_id])


def _update_revision(statement: str, key: str | int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, [key])
        row = cursor.fetchone()
    if row is None:
        raise EvalRun.DoesNotExist(f"No eval run of {key!r}.")
    return int(row[0])
