"""What every change of a run shares: its next revision, and the counts of its attempts."""

from __future__ import annotations

from typing import Any

from django.db.models import F

from evals_app.models import EvalAttempt, EvalRun

COUNTED = {
    EvalAttempt.Status.PASSED: "passed",
    EvalAttempt.Status.FAILED: "failed",
    EvalAttempt.Status.ERROR: "errors",
    EvalAttempt.Status.INCOMPLETE: "incomplete",
    EvalAttempt.Status.CANCELLED: "cancelled",
}
"""How an attempt ended, and the column of its run that counts it."""


def next_revision(run_id: str, counting: str = "") -> int:
    """Take the run's next revision under its lock, counting an attempt that has ended."""
    changes: dict[str, Any] = {"revision": F("revision") + 1}
    if counting:
        column = COUNTED[EvalAttempt.Status(counting)]
        changes[column] = F(column) + 1
    EvalRun.objects.filter(pk=run_id).update(**changes)
    return EvalRun.objects.values_list("revision", flat=True).get(pk=run_id)
