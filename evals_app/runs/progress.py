"""Progress of a run: counts, remaining time, and the actions that are possible when it has ended. Read-only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Avg, Count, Exists, F, OuterRef, Q, QuerySet, Subquery

from evals_app.models import COUNTS_IN_HISTORY, RETRY, EvalAttempt, EvalRun, EvalSet
from evals_app.runs import attempt_status, rerun
from evals_app.runs.limits import MAX_PARALLELISM, STEP_S
from sessions_app.runs import job_queue

Status = EvalAttempt.Status


@dataclass(frozen=True)
class RunProgress:
    """Attempts and seconds of an active or ended run.

    Attributes:
        running: attempts in flight.
        waiting: attempts that have not started.
        retrying: attempts in flight that wait to retry a model call.
        seconds_left: estimated seconds for the rest; None: unknown.
        seconds: how long the run took over all its starts; None: it has not started.
        unfinished: attempts without an end in a run that has ended: resuming runs them.
        cut_off: those of them that were in flight.
        not_passed: attempts that failed, erred or could not be judged, in all their tries.
        repeated_count: attempts that ran more than once.
        is_retried: a run is trying attempts of this one, or of the one that this one retries, again now.
        waits_for: why no worker has begun the run or any of its attempts; empty if none waits for a worker.
    """

    run: EvalRun
    running: int = 0
    waiting: int = 0
    retrying: int = 0
    seconds_left: float | None = None
    seconds: float | None = None
    unfinished: int = 0
    cut_off: int = 0
    not_passed: int = 0
    repeated_count: int = 0
    is_retried: bool = False
    waits_for: str = ""

    @property
    def can_resume(self) -> bool:
        """Tell whether the run can be resumed."""
        return not self.run.active and self.unfinished > 0 and self.run.source != "import"

    @property
    def can_retry(self) -> bool:
        """Tell whether attempts can be retried."""
        has_ended = not self.run.active and not self.is_retried
        return has_ended and self.not_passed > 0 and self.run.source != "import"

    @property
    def about(self) -> str:
        """The estimated time for the rest as text; "" if unknown."""
        return "" if self.seconds_left is None else format_estimate(self.seconds_left)

    @property
    def more(self) -> int:
        """The parallelism raised by one; 0: the maximum is reached."""
        return (self.run.parallelism + 1) % (MAX_PARALLELISM + 1)

    @property
    def fewer(self) -> int:
        """The parallelism reduced by one; 0: the minimum is reached."""
        return self.run.parallelism - 1


def read_progress(run: EvalRun) -> RunProgress:
    """Return the progress of a run. At most two queries; with workers two more while it waits."""
    now = current_time(run)
    since = run.started_at or now
    took = Avg(F("finished_at") - F("started_at"), filter=Q(started_at__gte=since, finished_at__isnull=False))
    counts = attempt_status.annotate_later_passes(run.attempts.all()).aggregate(
        running=Count("pk", filter=Q(status=Status.RUNNING)),
        waiting=Count("pk", filter=Q(status=Status.PENDING)),
        retrying=Count("pk", filter=Q(status=Status.RUNNING) & ~Q(waits_for="")),
        unfinished=Count("pk", filter=attempt_status.UNFINISHED),
        cut_off=Count("pk", filter=attempt_status.UNFINISHED & Q(started_at__isnull=False)),
        not_passed=Count("pk", filter=attempt_status.NEVER_PASSED),
        repeated_count=Count("pk", filter=Q(tries__gt=1)),
        mean=took,
    )
    mean = counts.pop("mean")
    seconds_left = None
    if run.active and mean is not None:
        start_times = run.attempts.filter(status=Status.RUNNING).values_list("started_at", flat=True)
        seconds_left = time_left(
            mean,
            counts["waiting"],
            [max(0.0, now - start) for start in start_times if start],
            run.parallelism,
        )
    is_waiting = run.status == EvalRun.Status.PENDING or (run.active and not counts["running"])
    waits_for = job_queue.explain_waiting(run) if is_waiting else ""
    return RunProgress(
        run,
        seconds_left=seconds_left,
        seconds=elapsed_seconds(run),
        is_retried=not run.active and counts["not_passed"] > 0 and _is_retried(run),
        waits_for=waits_for,
        **counts,
    )


def _is_retried(run: EvalRun) -> bool:
    """Tell whether a retry of a run's attempts is active."""
    retries = EvalRun.objects.filter(source=RETRY, repeats=rerun.find_first_run_id(run))
    return retries.filter(status__in=EvalRun.ACTIVE).exists()


def annotate_actions(runs: QuerySet[EvalRun]) -> QuerySet[EvalRun]:
    """Annotate the runs of a list with `may_resume` and `may_retry`, as in `RunProgress`."""
    attempts = EvalAttempt.objects.filter(run=OuterRef("pk"))
    attempts = attempts.exclude(run__status__in=EvalRun.ACTIVE).exclude(run__source="import")
    all_tries = attempt_status.annotate_later_passes(attempts)
    return runs.annotate(
        may_resume=Exists(attempts.filter(attempt_status.UNFINISHED)),
        may_retry=Exists(all_tries.filter(attempt_status.NEVER_PASSED)),
    )


def annotate_previous_config(runs: QuerySet[EvalRun]) -> QuerySet[EvalRun]:
    """Annotate runs with `previous_config`, the configuration of the evalset's run before; None for the first."""
    previous = EvalRun.objects.filter(evalset=OuterRef("evalset"), created_at__lt=OuterRef("created_at"))
    return runs.annotate(previous_config=Subquery(previous.order_by("-created_at").values("config")[:1]))


def current_time(run: EvalRun) -> float:
    """Return the current time of an active run: the clock's, unless it was set while the run is running."""
    now, step = time.time(), run.last_step_at or 0.0
    if run.started_at is None or step <= run.started_at:
        return now
    return min(max(now, step), step + 2 * STEP_S)


def elapsed_seconds(run: EvalRun) -> float | None:
    """Return how long a run took over all its starts; None if it has not started."""
    if run.started_at is None:
        return run.spent_seconds or None
    return run.spent_seconds + max(0.0, (run.finished_at or current_time(run)) - run.started_at)


def format_estimate(seconds: float) -> str:
    """Return an estimated time as text."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def time_left(mean: float, waiting: int, ages: Sequence[float], parallelism: int) -> float | None:
    """Return the estimated seconds until attempts end; None if only outliers remain.

    Ended attempts took `mean` seconds; active ones have been running for `ages`; `waiting` ones have not started.
    """
    running = [mean - age for age in ages if age < mean]
    if not waiting and not running:
        return None
    return max([(waiting * mean + sum(running)) / max(parallelism, 1), *running])


def newest_runs(evalsets: QuerySet[EvalSet]) -> dict[int, EvalRun]:
    """Return the newest run of each evalset that has one, by its key, except variants and repeats of a part."""
    runs = EvalRun.objects.filter(COUNTS_IN_HISTORY, evalset=OuterRef("pk"))
    newest = runs.order_by("-created_at").values("pk")[:1]
    ids = evalsets.annotate(newest_run=Subquery(newest)).values_list("newest_run", flat=True)
    newest_rows = EvalRun.objects.filter(pk__in=[run_id for run_id in ids if run_id])
    return {run.evalset_id: run for run in newest_rows.defer("config", "traceback")}
