"""What every change of a run shares: its next revision, and the counts of its attempts."""

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
"""How an attempt ended, and the column of its run that counts it."""


_TAKE = "UPDATE evals_app_evalrun SET revision = revision + 1 WHERE id = %s RETURNING revision"
_TAKE_OF_ATTEMPT = _TAKE.replace("%s", "(SELECT run_id FROM evals_app_evalattempt WHERE id = %s)")
_COUNT = {
    status: "UPDATE evals_app_evalrun SET n = n + 1 WHERE id = %s".replace("n = n", f"{column} = {column}")
    for status, column in COUNT_COLUMNS.items()
}


def next_revision(run_id: str) -> int:
    """Take a run's next revision under its row's lock, which holds until the transaction ends.

    Raises:
        EvalRun.DoesNotExist: there is no such run.
    """
    return _revision(_TAKE, run_id)


def next_revision_of(attempt_pk: int) -> int:
    """Take the next revision of an attempt's run; what is read afterwards is what the run's last writer left.

    Raises:
        EvalRun.DoesNotExist: there is no such attempt.
    """
    return _revision(_TAKE_OF_ATTEMPT, attempt_pk)


def count_attempt_end(run_id: str, status: str) -> None:
    """Count an attempt of a run that has ended."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT[EvalAttempt.Status(status)], [run_id])


def _revision(statement: str, key: str | int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, [key])
        row = cursor.fetchone()
    if row is None:
        raise EvalRun.DoesNotExist(f"No eval run of {key!r}.")
    return int(row[0])
