"""How far a run is, how long it will still take, and what can be done with it when it has ended. Only reads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Avg, Count, Exists, F, OuterRef, Q, QuerySet

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.limits import MAX_PARALLELISM

Status = EvalAttempt.Status


@dataclass(frozen=True)
class RunProgress:
    """A run under way or ended, in numbers of attempts and seconds.

    Attributes:
        running: attempts in flight now.
        waiting: attempts that have not begun.
        held_up: attempts in flight that wait until a model is asked again.
        left: how long the rest may take; None: not to be told yet.
        seconds: how long it ran, all its goes together; None: it has not begun.
        unfinished: attempts that came to no end, of a run that has ended: what resuming it would run.
        cut_off: those of them that were in flight.
        not_passed: attempts that failed, erred or could not be judged.
        tried_again: attempts that ran more than once.
    """

    run: EvalRun
    running: int = 0
    waiting: int = 0
    held_up: int = 0
    left: float | None = None
    seconds: float | None = None
    unfinished: int = 0
    cut_off: int = 0
    not_passed: int = 0
    tried_again: int = 0

    @property
    def can_resume(self) -> bool:
        """Tell whether something of the run is left to do."""
        return not self.run.active and self.unfinished > 0 and self.run.source != "import"

    @property
    def can_retry(self) -> bool:
        """Tell whether something may be tried again."""
        return not self.run.active and self.not_passed > 0 and self.run.source != "import"

    @property
    def about(self) -> str:
        """How long the rest may take, in words; "" when that is not to be told."""
        return "" if self.left is None else format_estimate(self.left)

    @property
    def more(self) -> int:
        """How many attempts at once would be one more; 0: that is too many."""
        return (self.run.parallelism + 1) % (MAX_PARALLELISM + 1)

    @property
    def fewer(self) -> int:
        """How many attempts at once would be one less; 0: there is no less."""
        return self.run.parallelism - 1


def progress_of(run: EvalRun) -> RunProgress:
    """Return how far a run is. Two queries while it runs, else one."""
    now = time.time()
    since = run.started_at or now
    took = Avg(F("finished_at") - F("started_at"), filter=Q(started_at__gte=since, finished_at__isnull=False))
    found = run.attempts.aggregate(
        running=Count("pk", filter=Q(status=Status.RUNNING)),
        waiting=Count("pk", filter=Q(status=Status.PENDING)),
        held_up=Count("pk", filter=Q(status=Status.RUNNING) & ~Q(waits_for="")),
        unfinished=Count("pk", filter=attempt_status.UNFINISHED),
        cut_off=Count("pk", filter=attempt_status.UNFINISHED & Q(started_at__isnull=False)),
        not_passed=Count("pk", filter=attempt_status.NOT_PASSED),
        tried_again=Count("pk", filter=Q(tries__gt=1)),
        mean=took,
    )
    mean = found.pop("mean")
    left = None
    if run.active and mean is not None:
        begun = run.attempts.filter(status=Status.RUNNING).values_list("started_at", flat=True)
        left = time_left(
            mean, found["waiting"], [max(0.0, now - start) for start in begun if start], run.parallelism
        )
    return RunProgress(run, left=left, seconds=elapsed_seconds(run, now), **found)


def annotate_actions(runs: QuerySet[EvalRun]) -> QuerySet[EvalRun]:
    """Return runs of a list with whether each `may_resume` and `may_retry`, as `Progress` tells of one."""
    its = EvalAttempt.objects.filter(run=OuterRef("pk"))
    its = its.exclude(run__status__in=EvalRun.ACTIVE).exclude(run__source="import")
    return runs.annotate(
        may_resume=Exists(its.filter(attempt_status.UNFINISHED)),
        may_retry=Exists(its.filter(attempt_status.NOT_PASSED)),
    )


def elapsed_seconds(run: EvalRun, now: float) -> float | None:
    """Return how long a run ran, all its goes together; None when it has not begun."""
    if run.started_at is None:
        return run.spent_seconds or None
    return run.spent_seconds + max(0.0, (run.finished_at or now) - run.started_at)


def format_estimate(seconds: float) -> str:
    """Return a span that is a guess, in words."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def time_left(mean: float, waiting: int, ages: Sequence[float], parallelism: int) -> float | None:
    """Return about how many seconds attempts still take; None when only such are left as take longer than most.

    Args:
        mean: how long those took that have ended.
        waiting: how many have not begun.
        ages: for how long each that runs has been running.
        parallelism: how many run at once.
    """
    running = [mean - age for age in ages if age < mean]
    if not waiting and not running:
        return None
    return max([(waiting * mean + sum(running)) / max(parallelism, 1), *running])
