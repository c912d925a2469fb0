"""Summary of a run in numbers. Read-only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Avg, Count, Min, Q, QuerySet, Sum

from evals_app.analysis.latency import LatencyPercentiles, measure_latency
from evals_app.metrics.metric import metric_label
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.runs.attempt_status import LOST_REASONS
from evals_app.runs.progress import elapsed_seconds
from sessions_app import prices
from sessions_app.store.errors import NotFound
from sessions_app.store.events.call_usage import add_tokens
from sessions_app.store.models import AgentSession

Status = EvalAttempt.Status
MAX_REASONS = 5
"""Reasons that are listed; the others are counted."""


@dataclass(frozen=True)
class MetricColumn:
    """One metric of a run that can pass or fail."""

    name: str
    threshold: float | None

    @property
    def label(self) -> str:
        """A short name."""
        return metric_label(self.name)


@dataclass(frozen=True)
class Reason:
    """Reason why a metric gave no verdict, and the number of attempts."""

    metric: str
    text: str
    attempts: int


@dataclass(frozen=True)
class Loss:
    """Reason why attempts have no outcome, their number, and the message of one of them."""

    error_type: str
    attempts: int
    message: str

    @property
    def reason(self) -> str:
        """The reason in words."""
        return LOST_REASONS[self.error_type]


@dataclass(frozen=True)
class ModelUsage:
    """Model usage of a run. The cost is None if an attempt that used tokens has no price.

    Attributes:
        judges: {model: {prompt, output, cached, calls}} of judges and simulated users, not included in the tokens.
        judge_cost: None if it is unknown, or no judge was called.
        unpriced: number of attempts that used models without a price.
    """

    tokens: int = 0
    prompt: int = 0
    output: int = 0
    cached: int = 0
    cost: float | None = None
    unpriced: int = 0
    judges: dict[str, dict[str, int]] = field(default_factory=dict)
    judge_cost: float | None = None
    currency: str = prices.DEFAULT_CURRENCY

    @property
    def judge_tokens(self) -> int:
        """Tokens of judges and simulated users."""
        return sum(used.get("prompt", 0) + used.get("output", 0) for used in self.judges.values())


@dataclass(frozen=True)
class Summary:
    """A run in numbers. `latency`: of its attempts, after it has ended."""

    run: EvalRun
    seconds: float | None
    usage: ModelUsage
    means: list[tuple[MetricColumn, float | None]] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    latency: LatencyPercentiles | None = None
    unlisted_reasons: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of the agent, over all attempts."""
        return self.usage.tokens

    @property
    def passes(self) -> bool:
        """Tell whether every attempt passed."""
        return self.run.status == EvalRun.Status.DONE and self.run.passed == self.run.total > 0

    @property
    def rest(self) -> list[str]:
        """Return the outcomes of attempts that did not pass, as text."""
        run = self.run
        counts = (
            (run.failed, "failed"),
            (run.errors, "error" if run.errors == 1 else "errors"),
            (run.incomplete, "incomplete"),
            (run.cancelled, "cancelled"),
        )
        return [f"{count} {word}" for count, word in counts if count]


def find_run(run_id: str) -> EvalRun:
    """Return a run with its evalset and version.

    Raises:
        NotFound: no such run.
    """
    run = EvalRun.objects.select_related("evalset", "version").filter(pk=run_id).first()
    if run is None:
        raise NotFound(
            f"No eval run {run_id!r}.",
            hint="The evalset's page lists its runs, as GET /api/v1/evals/runs does.",
        )
    return run


def find_attempt(pk: int) -> EvalAttempt:
    """Return an attempt with its scores, run, evalset and version.

    Raises:
        NotFound: no such attempt.
    """
    rows = EvalAttempt.objects.select_related("run__evalset", "run__version").prefetch_related("results")
    attempt = rows.filter(pk=pk).first()
    if attempt is None:
        raise NotFound(
            f"No attempt {pk}.", hint="GET /api/v1/evals/runs/{id}/results lists a run's attempts."
        )
    return attempt


def metric_columns(run: EvalRun) -> list[MetricColumn]:
    """Return the metrics of a run that can pass or fail, in order."""
    criteria = json.loads(run.config).get("criteria") or {}
    return [
        MetricColumn(name, criterion.get("threshold") if isinstance(criterion, dict) else criterion)
        for name, criterion in criteria.items()
    ]


def summary(run: EvalRun) -> Summary:
    """Return a run in numbers."""
    reasons = _unjudged_reasons(run)
    listed = list(reasons[:MAX_REASONS])
    return Summary(
        run,
        elapsed_seconds(run),
        model_usage(run),
        _mean_scores(run),
        [Reason(metric, text, times) for metric, text, times in listed],
        _find_losses(run) if run.errors else [],
        None if run.active else measure_latency(run),
        reasons.count() - MAX_REASONS if len(listed) == MAX_REASONS else 0,
    )


def model_usage(run: EvalRun) -> ModelUsage:
    """Return the model usage of a run so far."""
    table = prices.prices_from_json(json.loads(run.prices))
    sums = run.attempts.aggregate(
        unpriced=Count("pk", filter=Q(cost=None, total_tokens__gt=0)),
        paid=Sum("cost"),
        **{f"all_{name}": Sum(f"{name}_tokens") for name in ("total", "prompt", "output", "cached")},
    )
    judges = _judge_usage(run)
    return ModelUsage(
        tokens=sums["all_total"] or 0,
        prompt=sums["all_prompt"] or 0,
        output=sums["all_output"] or 0,
        cached=sums["all_cached"] or 0,
        cost=None if sums["unpriced"] else sums["paid"],
        unpriced=sums["unpriced"],
        judges=judges,
        judge_cost=table.cost(judges, run.started_at or run.created_at),
        currency=table.currency,
    )


def _judge_usage(run: EvalRun) -> dict[str, dict[str, int]]:
    judges: dict[str, dict[str, int]] = {}
    for text in run.attempts.exclude(judge="{}").values_list("judge", flat=True):
        for model, used in json.loads(text).items():
            add_tokens(judges.setdefault(model, {}), used)
    return judges


def _unjudged_reasons(run: EvalRun) -> QuerySet[MetricResult, tuple[str, str, int]]:
    """Return metric, reason and number of attempts where a metric gave no verdict, the most frequent first."""
    unrun = MetricResult.objects.filter(
        attempt__run=run, invocation=None, status=MetricResult.Status.NOT_EVALUATED
    )
    return unrun.values_list("metric", "reason").annotate(times=Count("pk")).order_by("-times", "metric")


def _find_losses(run: EvalRun) -> list[Loss]:
    """Return why attempts have no outcome, the most frequent reason first."""
    lost = run.attempts.filter(status=Status.ERROR, error_type__in=LOST_REASONS)
    counts = lost.values_list("error_type").annotate(times=Count("pk"), message=Min("error"))
    return [Loss(*row) for row in counts.order_by("-times", "error_type")]


def _mean_scores(run: EvalRun) -> list[tuple[MetricColumn, float | None]]:
    overall = MetricResult.objects.filter(attempt__run=run, invocation=None)
    means = dict(overall.values_list("metric").annotate(mean=Avg("score")))
    return [(column, means.get(column.name)) for column in metric_columns(run)]


@dataclass(frozen=True)
class Segment:
    """A segment of a run's bar: percent from the left, percent wide."""

    status: str
    count: int
    start: float
    width: float


def bar(run: EvalRun) -> list[Segment]:
    """Return the attempts of a run as segments of a bar, passed ones first."""
    counts = (
        (Status.PASSED, run.passed),
        (Status.FAILED, run.failed),
        (Status.ERROR, run.errors),
        (Status.INCOMPLETE, run.incomplete),
        (Status.CANCELLED, run.cancelled),
    )
    segments, start = [], 0.0
    for status, count in counts:
        width = 100 * count / run.total if run.total else 0.0
        if count:
            segments.append(Segment(str(status), count, round(start, 3), round(width, 3)))
        start += width
    return segments


def attempt_sessions(attempts: Iterable[EvalAttempt]) -> dict[int, int]:
    """Return the session's key of each attempt that has one, also while it runs."""
    attempts = list(attempts)
    linked = {attempt.pk: attempt.session_id for attempt in attempts if attempt.session_id}
    running = {attempt.realm: attempt.pk for attempt in attempts if attempt.status == Status.RUNNING}
    if not running:
        return linked
    rows = AgentSession.objects.filter(realm__in=list(running)).order_by("-pk").values_list("realm", "pk")
    return {**linked, **{running[realm]: pk for realm, pk in rows}}


def result_details(result: MetricResult) -> dict[str, Any]:
    """Return a result's details."""
    details: dict[str, Any] = json.loads(result.details)
    return details
