"""Writes of a run from its creation to its end, which also ends its attempts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import F, Max

from evals_app.models import EvalAttempt, EvalRun, EvalSetVersion
from evals_app.runs.attempt_status import PROCESS_GONE
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.writes.attempts import end_try
from evals_app.runs.writes.outcomes import ProcessFacts, RunFacts
from evals_app.runs.writes.revisions import COUNT_COLUMNS, next_revision
from evals_app.variants.variant import Variant
from sessions_app.agent_processes import processes
from sessions_app.delivery.failure import NO_FAILURE, Failure
from sessions_app.delivery.ownership import is_claim
from sessions_app.quotas import quota_enforcement
from sessions_app.runs import job_queue
from sessions_app.store import realms, scopes
from sessions_app.store.database import change_notification
from sessions_app.store.traces import records as traces

MIN_PAUSE_S = 0.001
"""Least seconds between the last step of a run and its next start, so that no two of its times are equal."""


@dataclass(frozen=True)
class NewEvalRun:
    """A run to create.

    Attributes:
        cases: (position in the evalset, id) of each case to run.
        repetitions: the repetitions of a case to run, by its position; empty: 1 to `num_runs` of every case.
        case_ids: the requested ids; empty: all.
        shard: the part of the requested cases, such as 2/4; empty: all.
        limits: see `limits.EvalRunLimits`.
        policy: replay policy of models and tools.
        prices: price table for costs.
        person: name of the person who orders it; empty: unknown.
        repeats: the run that this one repeats.
        variant: what it changes of the agent; None: nothing.
        variant_of: the run of the original that the variant is compared with.
    """

    version: EvalSetVersion
    cases: Sequence[tuple[int, str]]
    config: Mapping[str, Any]
    config_source: str = ""
    case_ids: Sequence[str] = ()
    shard: str = ""
    num_runs: int = 1
    parallelism: int = 4
    limits: Mapping[str, float] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    source: str = "page"
    person: str = ""
    repeats: EvalRun | None = None
    repetitions: Mapping[int, Collection[int]] = field(default_factory=dict)
    variant: Variant | None = None
    variant_of: EvalRun | None = None

    @property
    def attempts(self) -> list[tuple[int, str, int]]:
        """(position of the case, its id, repetition) of each attempt."""
        all_repetitions = range(1, self.num_runs + 1)
        return [
            (index, case_id, repetition)
            for index, case_id in self.cases
            for repetition in sorted(self.repetitions.get(index, all_repetitions))
        ]


def create_run(order: NewEvalRun, run_id: str = "") -> EvalRun:
    """Create a pending run with its pending attempts: one per case and repetition. An empty `run_id` is generated.

    This process owns the run until it is delivered, if it has a row of its own (`processes.own_id`).

    Raises:
        QuotaUsedUp: a quota of the person is used up.
    """
    as_json = ("config", "case_ids", "limits", "policy", "prices", "warnings")
    as_they_are = (
        "version",
        "config_source",
        "shard",
        "num_runs",
        "parallelism",
        "source",
        "person",
        "repeats",
        "variant_of",
    )
    run = EvalRun(
        id=run_id or uuid.uuid4().hex,
        evalset=order.version.evalset,
        app_name=order.version.evalset.app_name,
        runtime_id=processes.own_id(),
        created_at=time.time(),
        queued_at=time.time(),
        total=len(order.attempts),
        variant=order.variant.as_json() if order.variant else "",
        variant_hash=order.variant.hash if order.variant else "",
        **{name: getattr(order, name) for name in as_they_are},
        **{name: scopes.dumps(getattr(order, name)) for name in as_json},
    )
    attempts = (
        EvalAttempt(
            run=run,
            case_index=index,
            case_id=scopes.clean_text(case_id),
            repetition=repetition,
            realm=attempt_realm(run.id, index, case_id, repetition),
        )
        for index, case_id, repetition in order.attempts
    )
    with transaction.atomic():
        run.save(force_insert=True)
        apply_quotas(run)
        EvalAttempt.objects.bulk_create(attempts, batch_size=500)
        if queue := job_queue.current_queue():
            queue.defer_eval_run(run.id, run.app_name, "")
        change_notification.notify_after_commit()
    return run


def apply_quotas(run: EvalRun) -> None:
    """Count a run that is pending for the quotas of its person, and limit it to what is left of them today.

    Raises:
        QuotaUsedUp: a quota is used up.
    """
    if not run.person:
        return
    remainder = quota_enforcement.admit_run(run.person, run.app_name)
    limits = replace(EvalRunLimits.read(run.limits), quota_tokens=remainder.tokens, quota_cost=remainder.cost)
    text = scopes.dumps(limits.as_json())
    if text != run.limits:
        run.limits = text
        run.save(update_fields=["limits"])


def attempt_realm(run_id: str, case_index: int, case_id: str, repetition: int, tried: int = 0) -> str:
    """Return the realm of an attempt's try: its isolated namespace.

    The position distinguishes cases of the same id.
    """
    name = sha256(f"{case_index}\x1f{case_id}".encode(errors="replace")).hexdigest()[:16]
    return f"{realms.ATTEMPT}{run_id}/{name}/{repetition}{f'.{tried + 1}' if tried else ''}"


def assign_runs(run_ids: Iterable[str], runtime_id: str) -> None:
    """Set the process that will execute pending runs, so that they crash with it."""
    with transaction.atomic():
        EvalRun.objects.filter(pk__in=list(run_ids), status=EvalRun.Status.PENDING).update(
            runtime_id=runtime_id
        )


def claim_run(run_id: str, runtime_id: str | None, claimed_at: float | None = None) -> EvalRun | None:
    """Start a pending run; return None if it is not pending.

    A run that was started before starts after its last step, even if the clock was set back: so times of one run are
    ordered.

    Args:
        claimed_at: start time; None: now. A call with the same time is the same claim (`is_claim`).
    """
    now = time.time() if claimed_at is None else claimed_at
    with transaction.atomic():
        rows = EvalRun.objects.select_for_update(of=("self",)).select_related("version", "evalset")
        run = rows.filter(pk=run_id).first()
        if run is None:
            return None
        started_at = max(now, (run.last_step_at or 0.0) + MIN_PAUSE_S)
        if run.status != EvalRun.Status.PENDING:
            return run if is_claim(run, runtime_id, started_at) else None
        run.status, run.runtime_id, run.started_at = EvalRun.Status.RUNNING, runtime_id, started_at
        run.limits_from = run.limits_from or started_at
        run.revision += 1
        run.save(update_fields=["status", "runtime", "started_at", "limits_from", "revision"])
        change_notification.notify_after_commit()
    return run


def lock_active(run_id: str, started_at: float | None = None) -> EvalRun | None:
    """Return an active run under its row's lock; None if it has ended.

    Args:
        started_at: start of a claim. If another process has claimed the run since, return None, too. None: any claim.
    """
    run = EvalRun.objects.select_for_update().filter(pk=run_id, status__in=EvalRun.ACTIVE).first()
    return run if run is not None and started_at in (None, run.started_at) else None


def release_run(run_id: str, started_at: float | None = None) -> bool:
    """Make a run pending again because its server stops, for the next one; False if it has started an attempt.

    `started_at`: see `lock_active`.
    """
    with transaction.atomic():
        run = lock_active(run_id, started_at)
        if (
            run is None
            or run.started_at is None
            or run.cancel_requested_at is not None
            or run.attempts.filter(started_at__gte=run.started_at).exists()
        ):
            return False
        if run.limits_from == run.started_at:
            run.limits_from = None
        run.status, run.started_at = EvalRun.Status.PENDING, None
        run.revision += 1
        run.save(update_fields=["status", "started_at", "limits_from", "revision"])
        change_notification.notify_after_commit()
    return True


def note_step(run_id: str, started_at: float, now: float) -> None:
    """Store the time of the stopwatch of a run's process: if the process dies, the run has lasted until then."""
    active = EvalRun.objects.filter(pk=run_id, status=EvalRun.Status.RUNNING, started_at=started_at)
    active.update(last_step_at=now)


def note_facts(run_id: str, facts: RunFacts) -> None:
    """Store the facts of a run."""
    with transaction.atomic():
        EvalRun.objects.filter(pk=run_id).update(
            code_version=facts.code_version,
            git_revision=facts.git_revision,
            adk_version=facts.adk_version,
            agent_models=scopes.dumps(dict(facts.models)),
            revision=F("revision") + 1,
        )
        change_notification.notify_after_commit()


def note_process_facts(run_id: str, facts: ProcessFacts) -> None:
    """Store the facts of the process of a run that ends."""
    EvalRun.objects.filter(pk=run_id).update(
        packages=scopes.dumps(dict(facts.packages)),
        environment=scopes.dumps(dict(facts.environment)),
        model_versions=scopes.dumps(dict(facts.model_versions)),
    )


def begin_cancel(run_id: str) -> bool:
    """Request the cancellation of a run. False if it had ended.

    A pending run ends here, and so does one whose attempts execute on workers: these see that their rows have ended,
    and its coordinator may be gone. Then the caller closes its traces (`close_run_traces`): records of many sessions
    are being written, and waiting for them could be a deadlock.
    """
    with transaction.atomic():
        run = lock_active(run_id)
        if run is None:
            return False
        is_running = run.status == EvalRun.Status.RUNNING
        if not is_running or job_queue.current_queue() is not None:
            now = time.time() if is_running else None
            _end_run(run_id, EvalRun.Status.CANCELLED, now=now, leaves_traces=is_running)
        else:
            EvalRun.objects.filter(pk=run_id).update(
                cancel_requested_at=time.time(), revision=F("revision") + 1
            )
        change_notification.notify_after_commit()
    return True


def begin_cancel_with_variants(run_id: str) -> None:
    """Request the cancellation of a run and of the runs of its variants."""
    variant_runs = EvalRun.objects.filter(variant_of=run_id).values_list("pk", flat=True)
    for ordered_id in (run_id, *variant_runs):
        begin_cancel(ordered_id)


def set_parallelism(run_id: str, parallelism: int) -> bool:
    """Change how many attempts of an active run execute at once. False if it has ended."""
    with transaction.atomic():
        changed = EvalRun.objects.filter(pk=run_id, status__in=EvalRun.ACTIVE).update(
            parallelism=parallelism, revision=F("revision") + 1
        )
        change_notification.notify_after_commit()
    return bool(changed)


def finish_run(
    run_id: str,
    status: str,
    failure: Failure = NO_FAILURE,
    *,
    because: str = "",
    now: float | None = None,
    started_at: float | None = None,
) -> bool:
    """End an active run; return False if it has ended already. Its unfinished attempts end with the reason.

    Args:
        started_at: see `lock_active`.
        failure: why the run could not run.
        because: the limit that stopped it.
        now: time of the run's stopwatch. None: its last step if it has started, else the clock's time. Its process
            is gone then, and how long ago that was is unknown if the clock was set meanwhile.
    """
    with transaction.atomic():
        if lock_active(run_id, started_at) is None:
            return False
        _end_run(run_id, status, failure, because, now)
        change_notification.notify_after_commit()
    return True


def crash_run(run_id: str, why: str) -> bool:
    """End an active run whose process is gone: running attempts are errors, pending ones are cancelled."""
    return finish_run(run_id, EvalRun.Status.CRASHED, Failure(PROCESS_GONE, why))


STOPPED_WITH_PROCESS = "The process that ran it was stopped."
"""Reason of a run that ends with its process: a restart, or an interrupt at the command line."""

CANCEL_REASONS = {
    EvalRun.Status.CANCELLED: "The run was cancelled.",
    EvalRun.Status.FAILED: "The run could not run.",
    EvalRun.Status.CRASHED: "The process that ran it ended before this attempt began.",
}
"""Final status of a run → why its unfinished attempts were cancelled."""


def _end_run(
    run_id: str,
    status: str,
    failure: Failure = NO_FAILURE,
    because: str = "",
    now: float | None = None,
    *,
    leaves_traces: bool = False,
) -> None:
    """End a run under its row's lock, with its active attempts: those of a crashed run that are in flight are errors.

    Arguments as in `finish_run`. `leaves_traces`: open traces of its attempts are the caller's (`close_run_traces`).
    """
    has_crashed = status == EvalRun.Status.CRASHED
    in_flight = EvalAttempt.Status.ERROR if has_crashed else EvalAttempt.Status.CANCELLED
    revision = next_revision(run_id)
    attempts = EvalAttempt.objects.filter(run_id=run_id)
    ended_at = max(last_step(run_id), now or 0.0) or time.time()
    why = because or CANCEL_REASONS.get(EvalRun.Status(status), "")
    running = list(attempts.filter(status=EvalAttempt.Status.RUNNING).select_related("run"))
    for attempt in running:
        end_try(attempt, in_flight, failure if has_crashed else NO_FAILURE, ended_at)
        attempt.stopped_because, attempt.revision = "" if has_crashed else why, revision
        attempt.save(force_update=True)
    if running and not leaves_traces:
        traces.close_unfinished(ended_at, session__realm__in=[attempt.realm for attempt in running])
    waiting = attempts.filter(status=EvalAttempt.Status.PENDING).update(
        status=EvalAttempt.Status.CANCELLED, runtime=None, revision=revision, stopped_because=why
    )
    column = COUNT_COLUMNS[in_flight]
    EvalRun.objects.filter(pk=run_id).update(**{column: F(column) + len(running)})
    EvalRun.objects.filter(pk=run_id).update(
        status=status,
        finished_at=ended_at,
        cancelled=F("cancelled") + waiting,
        stopped_because=because,
        error_type=failure.type,
        error=scopes.clean_error(failure.message),
        hint=scopes.clean_text(failure.hint),
        traceback=scopes.clean_error(failure.traceback),
    )


def close_run_traces(run_id: str) -> None:
    """Close the open traces of the attempts of a run that was cancelled."""
    attempts = EvalAttempt.objects.filter(run_id=run_id, status=EvalAttempt.Status.CANCELLED)
    ended_at = attempts.aggregate(at=Max("finished_at"))["at"]
    if ended_at is not None:
        traces.close_unfinished(ended_at, session__realm__in=attempts.values("realm"))


def last_step(run_id: str) -> float:
    """Return the latest time of a started run's stopwatch that is known; 0.0 if it has not started."""
    times = EvalRun.objects.filter(pk=run_id, started_at__isnull=False).aggregate(
        run=Max("started_at"),
        step=Max("last_step_at"),
        attempt_start=Max("attempts__started_at"),
        attempt_end=Max("attempts__finished_at"),
    )
    return max((step_time for step_time in times.values() if step_time), default=0.0)
