"""Removing an eval run with everything that its attempts have left."""

from __future__ import annotations

import json
from collections.abc import Iterator

from django.db import transaction

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.rerun import EvalRunActive
from sessions_app.sessions import purge
from sessions_app.store.database import change_notification
from sessions_app.store.errors import NotFound


def delete_run(run_id: str) -> None:
    """Delete a run that has ended, its results, and its attempts' sessions, state, artifacts and memory.

    Works in small transactions, the run's own row last: call it outside of one, and again when it was killed.

    Raises:
        NotFound: there is no such run.
        EvalRunActive: it has not ended.
    """
    run = EvalRun.objects.filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"No eval run {run_id!r}.", hint="GET /api/v1/evals/runs lists them.")
    if run.active:
        raise EvalRunActive(
            f"Eval run {run_id!r} is {run.status} and cannot be deleted.",
            hint=f"Cancel it first: POST /api/v1/evals/runs/{run_id}/cancel.",
        )
    for realm in list(_attempt_realms(run)):
        purge.delete_realm(realm)
    with transaction.atomic():
        run.delete()
        change_notification.notify_after_commit()


def _attempt_realms(run: EvalRun) -> Iterator[str]:
    """Yield the worlds of a run's attempts, those of earlier tries too."""
    for realm, earlier in EvalAttempt.objects.filter(run=run).values_list("realm", "earlier"):
        yield realm
        yield from (tried["realm"] for tried in json.loads(earlier))
