"""A run from its order to its end. Whoever ends it, ends its attempts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import F, OuterRef, Subquery

from evals_app.models import EvalAttempt, EvalRun, EvalSetVersion
from evals_app.writes.counting import COUNTED, next_revision
from evals_app.writes.outcomes import Facts, Failure
from sessions_app import bell, realms, state
from sessions_app.models import AgentSession

UNASSIGNED_S = 60.0
"""Seconds after which a pending run that no process was given is an orphan: who ordered it has died."""


def create_run(
    version: EvalSetVersion,
    cases: Sequence[tuple[int, str]],
    *,
    config: Mapping[str, Any],
    config_source: str = "",
    case_ids: Sequence[str] = (),
    num_runs: int = 1,
    parallelism: int = 4,
    warnings: Sequence[str] = (),
    source: str = "page",
) -> EvalRun:
    """Create a pending run with one pending attempt per case and repetition.

    Args:
        version: what the evalset says.
        cases: (place in the evalset, id) of each case to run.
        case_ids: the ids that were asked for; empty: all.
    """
    run = EvalRun(
        id=uuid.uuid4().hex,
        evalset=version.evalset,
        version=version,
        app_name=version.evalset.app_name,
        config=state.dumps(config),
        config_source=config_source,
        case_ids=state.dumps(list(case_ids)),
        num_runs=num_runs,
        parallelism=parallelism,
        warnings=state.dumps(list(warnings)),
        source=source,
        created_at=time.time(),
        total=len(cases) * num_runs,
    )
    attempts = [
        EvalAttempt(
            run=run,
            case_index=index,
            case_id=state.clean_text(case_id),
            repetition=repetition,
            realm=realm_of(run.id, index, case_id, repetition),
        )
        for index, case_id in cases
        for repetition in range(1, num_runs + 1)
    ]
    with transaction.atomic():
        run.save(force_insert=True)
        EvalAttempt.objects.bulk_create(attempts, batch_size=500)
        bell.ring_after_commit()
    return run


def realm_of(run_id: str, case_index: int, case_id: str, repetition: int) -> str:
    """Return the realm of an attempt: its private world. The place keeps cases of the same id apart."""
    name = sha256(f"{case_index}\x1f{case_id}".encode(errors="replace")).hexdigest()[:16]
    return f"{realms.ATTEMPT}{run_id}/{name}/{repetition}"


def assign(run_ids: Iterable[str], runtime_id: str) -> None:
    """Note which process will carry out pending runs: they crash together."""
    with transaction.atomic():
        EvalRun.objects.filter(pk__in=list(run_ids), status=EvalRun.Status.PENDING).update(
            runtime_id=runtime_id
        )


def claim_run(run_id: str, runtime_id: str | None) -> EvalRun | None:
    """Turn a pending run into a running one; None when it is not pending (any more)."""
    with transaction.atomic():
        claimed = EvalRun.objects.filter(pk=run_id, status=EvalRun.Status.PENDING).update(
            status=EvalRun.Status.RUNNING,
            runtime_id=runtime_id,
            started_at=time.time(),
            revision=F("revision") + 1,
        )
        bell.ring_after_commit()
    return EvalRun.objects.select_related("version", "evalset").get(pk=run_id) if claimed else None


def note_facts(run_id: str, facts: Facts) -> None:
    """Keep what ran."""
    with transaction.atomic():
        EvalRun.objects.filter(pk=run_id).update(
            code_version=facts.code_version,
            git_revision=facts.git_revision,
            adk_version=facts.adk_version,
            agent_models=state.dumps(dict(facts.models)),
            revision=F("revision") + 1,
        )
        bell.ring_after_commit()


def request_cancel(run_id: str) -> bool:
    """Note that a run shall stop; a pending one ends here. False when it had ended already."""
    with transaction.atomic():
        run = EvalRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None or not run.active:
            return False
        if run.status == EvalRun.Status.PENDING:
            _end_run(run_id, EvalRun.Status.CANCELLED, EvalAttempt.Status.CANCELLED, Failure("", ""))
        else:
            EvalRun.objects.filter(pk=run_id).update(
                cancel_requested_at=time.time(), revision=F("revision") + 1
            )
        bell.ring_after_commit()
    return True


def finish_run(run_id: str, status: str, failure: Failure | None = None) -> bool:
    """End an active run. Attempts that have not ended are cancelled, or carry the error of a run that failed.

    Returns:
        False when it had ended already.
    """
    with transaction.atomic():
        run = EvalRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None or not run.active:
            return False
        _end_run(run_id, status, EvalAttempt.Status.CANCELLED, failure or Failure("", ""))
        bell.ring_after_commit()
    return True


def crash_run(run_id: str, why: str) -> bool:
    """Mark an active run whose process is gone: what was running is an error, what waited is cancelled."""
    with transaction.atomic():
        run = EvalRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None or not run.active:
            return False
        failure = Failure("RuntimeGone", why)
        _end_run(run_id, EvalRun.Status.CRASHED, EvalAttempt.Status.ERROR, failure)
        bell.ring_after_commit()
    return True


def crash_runs_of(runtime_id: str, why: str) -> int:
    """Mark the active runs of a process that is gone; return how many there were."""
    runs = EvalRun.objects.filter(runtime_id=runtime_id, status__in=EvalRun.ACTIVE).values_list(
        "pk", flat=True
    )
    return sum(crash_run(run_id, why) for run_id in list(runs))


def crash_orphans() -> int:
    """End the active runs that nobody will end: their process has stopped, or none ever took them.

    Call it after `sessions_app.runs.rows.crash_orphans`, which notes the processes that are gone.
    """
    active = EvalRun.objects.filter(status__in=EvalRun.ACTIVE)
    stopped = active.filter(runtime__stopped_at__isnull=False).values_list("pk", flat=True)
    never = active.filter(runtime=None, created_at__lt=time.time() - UNASSIGNED_S).values_list(
        "pk", flat=True
    )
    ended = sum(crash_run(run_id, "The process that ran it has ended.") for run_id in list(stopped))
    return ended + sum(crash_run(run_id, "No process took it.") for run_id in list(never))


def _end_run(run_id: str, status: str, in_flight: str, failure: Failure) -> None:
    now = time.time()
    revision = next_revision(run_id)
    attempts = EvalAttempt.objects.filter(run_id=run_id)
    its_session = AgentSession.objects.filter(realm=OuterRef("realm")).order_by("pk").values("pk")[:1]
    running = attempts.filter(status=EvalAttempt.Status.RUNNING).update(
        status=in_flight,
        session=Subquery(its_session),
        finished_at=now,
        revision=revision,
        error_type=failure.type if in_flight == EvalAttempt.Status.ERROR else "",
        error=state.clean_text(failure.message) if in_flight == EvalAttempt.Status.ERROR else "",
    )
    waiting = attempts.filter(status=EvalAttempt.Status.PENDING).update(
        status=EvalAttempt.Status.CANCELLED, revision=revision
    )
    column = COUNTED[EvalAttempt.Status(in_flight)]
    EvalRun.objects.filter(pk=run_id).update(**{column: F(column) + running})
    EvalRun.objects.filter(pk=run_id).update(
        status=status,
        finished_at=now,
        cancelled=F("cancelled") + waiting,
        error_type=failure.type,
        error=state.clean_text(failure.message),
        hint=state.clean_text(failure.hint),
        traceback=state.clean_text(failure.traceback),
    )
