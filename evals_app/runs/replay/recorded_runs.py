"""Recordings that a policy names: runs of an evalset, and the session of an attempt. Read-only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from evals_app.models import COUNTS_IN_HISTORY, EvalAttempt, EvalRun, EvalSet
from evals_app.runs.replay.policy import ReplayPolicy
from sessions_app.store.errors import NotFound
from sessions_app.store.models import AgentSession

NEWEST_RUN = "last"
"""Name of the newest run of an evalset; runs that repeat a part of another one do not count."""


def recorded_runs(evalset: EvalSet) -> QuerySet[EvalRun]:
    """Return the runs whose recordings can be replayed, the newest first: ended runs of DevUI."""
    ended = evalset.runs.exclude(status__in=EvalRun.ACTIVE).exclude(source="import")
    return ended.order_by("-created_at")


def resolve_policy(evalset: EvalSet, policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy (JSON) with the id of its run, which may be given by a prefix or as the last one.

    Raises:
        NotFound: no such run.
        BadInput: the policy is invalid.
    """
    requested = ReplayPolicy.of(json.dumps(policy))
    return ReplayPolicy.chosen(
        requested.models, requested.tools, run=_find_run_id(evalset, requested.run)
    ).as_json()


def _find_run_id(evalset: EvalSet, name: str) -> str:
    if not name:
        return ""
    runs = recorded_runs(evalset)
    is_newest = name == NEWEST_RUN
    runs = runs.filter(COUNTS_IN_HISTORY) if is_newest else runs.filter(pk__startswith=name)
    run_id = runs.values_list("pk", flat=True).first()
    if run_id is None:
        raise NotFound(
            f"{evalset.path} has no run {name!r} whose recording could be given again.",
            hint="Run it once with everything live; its page shows the run's id.",
        )
    return str(run_id)


def recorded_session(policy: ReplayPolicy, case_id: str, repetition: int) -> AgentSession | None:
    """Return the session that an attempt replays: of the same repetition, else the first one."""
    if policy.session is not None:
        return AgentSession.objects.filter(pk=policy.session).first()
    if not policy.run:
        return None
    attempts_with_session = EvalAttempt.objects.filter(run_id=policy.run, case_id=case_id).exclude(
        session=None
    )
    attempts = list(
        attempts_with_session.select_related("session").defer("actual").order_by("case_index", "repetition")
    )
    same = (attempt.session for attempt in attempts if attempt.repetition == repetition)
    return next(same, attempts[0].session if attempts else None)
