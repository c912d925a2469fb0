"""Creation of the rows of imported runs, which another program executed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from django.db import transaction

from evals_app.models import EvalAttempt, EvalRun, EvalSet, EvalSetVersion, MetricResult
from evals_app.runs.writes.attempts import result_row, set_outcome
from evals_app.runs.writes.outcomes import Outcome
from evals_app.runs.writes.revisions import COUNT_COLUMNS
from sessions_app.store import scopes
from sessions_app.store.database import change_notification


def import_run(
    run_id: str,
    app_name: str,
    evalset_id: str,
    *,
    content: Mapping[str, Any],
    config: Mapping[str, Any],
    attempts: Sequence[tuple[EvalAttempt, Outcome]],
    ended_at: float,
) -> bool:
    """Store a run that another program executed; return False if it is stored already.

    Args:
        content: the evalset as far as it is known: ADK's EvalSet in snake case.
        attempts: unsaved rows with their outcomes.
        ended_at: when its results were written; its duration is unknown.
    """
    with transaction.atomic():
        version = _store_version(app_name, evalset_id, content, ended_at)
        counts = Counter(COUNT_COLUMNS[EvalAttempt.Status(outcome.status)] for _, outcome in attempts)
        _, is_new = EvalRun.objects.get_or_create(
            pk=run_id,
            defaults={
                "evalset": version.evalset,
                "version": version,
                "app_name": app_name,
                "status": EvalRun.Status.DONE,
                "source": "import",
                "config": scopes.dumps(config),
                "config_source": "the results of adk web",
                "num_runs": max((attempt.repetition for attempt, _ in attempts), default=1),
                "created_at": ended_at,
                "finished_at": ended_at,
                "total": len(attempts),
                **counts,
            },
        )
        if is_new:
            for attempt, outcome in attempts:
                _save_attempt(attempt, outcome, ended_at)
        change_notification.notify_after_commit()
    return is_new


def _store_version(
    app_name: str, evalset_id: str, content: Mapping[str, Any], ended_at: float
) -> EvalSetVersion:
    """Return the version of an evalset with this content; an unknown evalset is created as gone."""
    text = scopes.dumps(content)
    evalset, _ = EvalSet.objects.get_or_create(
        app_name=app_name,
        evalset_id=evalset_id,
        defaults={"path": f"{evalset_id}.evalset.json", "gone": True, "seen_at": time.time()},
    )
    version, _ = EvalSetVersion.objects.get_or_create(
        evalset=evalset,
        digest=sha256(text.encode()).hexdigest(),
        defaults={"content": text, "created_at": ended_at},
    )
    return version


def _save_attempt(attempt: EvalAttempt, outcome: Outcome, ended_at: float) -> None:
    attempt.case_id = scopes.clean_text(attempt.case_id)
    attempt.status, attempt.tries, attempt.finished_at = outcome.status, 1, ended_at
    set_outcome(attempt, outcome)
    attempt.save(force_insert=True)
    MetricResult.objects.bulk_create(result_row(attempt.pk, score) for score in outcome.scores)
