"""A run read for people: its summary, the matrix of cases and metrics, and one attempt in full. Only reads."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import (
    Avg,
    Case,
    Count,
    IntegerField,
    Max,
    OuterRef,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)

from evals_app.metrics import METRICS, Kind, label_of
from evals_app.models import EvalAttempt, EvalRun, EvalSet, MetricResult
from sessions_app.errors import NotFound
from sessions_app.models import AgentSession

Status = EvalAttempt.Status
SEVERITY = {
    Status.FAILED: 7,
    Status.ERROR: 6,
    Status.INCOMPLETE: 5,
    Status.RUNNING: 4,
    Status.PENDING: 3,
    Status.CANCELLED: 2,
    Status.PASSED: 1,
}
"""A case is as bad as its worst attempt."""
PAGE = 100
REASONS = 5


@dataclass(frozen=True)
class Column:
    """One metric of a run that can pass or fail."""

    name: str
    threshold: float | None

    @property
    def label(self) -> str:
        """A short name."""
        return label_of(self.name)


@dataclass(frozen=True)
class Cell:
    """What a metric says of a case over its repetitions. `score` is their mean."""

    metric: str
    status: str
    score: float | None
    passed: int
    judged: int
    reason: str = ""

    @property
    def label(self) -> str:
        """The metric's short name."""
        return label_of(self.metric)


@dataclass(frozen=True)
class CaseRow:
    """One case of a run: its repetitions and a cell per metric."""

    index: int
    id: str
    status: str
    attempts: list[EvalAttempt]
    cells: list[Cell]

    @property
    def first(self) -> EvalAttempt:
        """The attempt to open for the case: the worst one, the earliest of those."""
        return max(self.attempts, key=lambda attempt: (SEVERITY[Status(attempt.status)], -attempt.repetition))

    @property
    def dom_id(self) -> str:
        """The id of its element on the page."""
        return f"case-{self.index}"

    @property
    def tokens(self) -> int:
        """Tokens of all repetitions."""
        return sum(attempt.total_tokens for attempt in self.attempts)

    @property
    def seconds(self) -> float | None:
        """Mean time of the repetitions that have ended."""
        times = [attempt.seconds for attempt in self.attempts if attempt.seconds is not None]
        return sum(times) / len(times) if times else None

    @property
    def error(self) -> str:
        """The first error among the repetitions, in one line."""
        found = next((attempt for attempt in self.attempts if attempt.error), None)
        return f"{found.error_type}: {found.error.splitlines()[0]}" if found else ""


@dataclass(frozen=True)
class Matrix:
    """A page of a run's cases by its metrics."""

    columns: list[Column]
    rows: list[CaseRow]
    page: int
    pages: int
    total: int

    @property
    def previous(self) -> int:
        """The page before."""
        return self.page - 1

    @property
    def next(self) -> int:
        """The page after."""
        return self.page + 1


@dataclass(frozen=True)
class Reason:
    """Why a metric did not run, and in how many attempts."""

    metric: str
    text: str
    attempts: int


@dataclass(frozen=True)
class Summary:
    """A run in numbers."""

    run: EvalRun
    seconds: float | None
    left: float | None
    tokens: int
    means: list[tuple[Column, float | None]] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)

    @property
    def passes(self) -> bool:
        """Tell whether every attempt passed."""
        return self.run.status == EvalRun.Status.DONE and self.run.passed == self.run.total > 0

    @property
    def rest(self) -> list[str]:
        """Return what became of the attempts that did not pass, in words."""
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
    found = EvalRun.objects.select_related("evalset", "version").filter(pk=run_id).first()
    if found is None:
        raise NotFound(f"No eval run {run_id!r}.", hint="It was deleted; the evalset's page lists its runs.")
    return found


def run_context(run: EvalRun) -> dict[str, Any]:
    """Return what templates show of a run as a whole, on its page and by its socket."""
    return {"run": run, "summary": summary(run), "bar": bar(run)}


def columns_of(run: EvalRun) -> list[Column]:
    """Return the metrics of a run that can pass or fail, in order."""
    criteria = json.loads(run.config).get("criteria") or {}
    return [
        Column(name, criterion.get("threshold") if isinstance(criterion, dict) else criterion)
        for name, criterion in criteria.items()
    ]


def summary(run: EvalRun) -> Summary:
    """Return a run in numbers; `left` is a guess from what has ended so far."""
    seconds = (run.finished_at or time.time()) - run.started_at if run.started_at else None
    left = None
    if run.active and run.finished and seconds:
        left = seconds / run.finished * (run.total - run.finished)
    tokens = run.attempts.aggregate(all=Sum("total_tokens"))["all"] or 0
    return Summary(run, seconds, left, tokens, _means(run), _reasons(run))


def _reasons(run: EvalRun) -> list[Reason]:
    """Return the most frequent reasons why metrics did not run."""
    unrun = MetricResult.objects.filter(
        attempt__run=run, invocation=None, status=MetricResult.Status.NOT_EVALUATED
    )
    found = unrun.values_list("metric", "reason").annotate(times=Count("pk")).order_by("-times", "metric")
    return [Reason(metric, text, times) for metric, text, times in found[:REASONS]]


def _means(run: EvalRun) -> list[tuple[Column, float | None]]:
    overall = MetricResult.objects.filter(attempt__run=run, invocation=None)
    means = dict(overall.values_list("metric").annotate(mean=Avg("score")))
    return [(column, means.get(column.name)) for column in columns_of(run)]


def matrix(run: EvalRun, *, failures_first: bool = True, status: str = "", page: int = 1) -> Matrix:
    """Return a page of the matrix, the worst cases first or in the order of the file.

    Args:
        status: only the cases whose worst attempt has this status; "" for all.
    """
    cases = _worst(run)
    if status:
        cases = cases.filter(worst=SEVERITY[Status(status)])
    total = cases.count()
    pages = max(1, -(-total // PAGE))
    page = min(max(1, page), pages)
    order = ("-worst", "case_index") if failures_first else ("case_index",)
    window = cases.order_by(*order)[(page - 1) * PAGE : page * PAGE]
    return Matrix(columns_of(run), rows_of(run, [case["case_index"] for case in window]), page, pages, total)


def _worst(run: EvalRun) -> Any:
    """Return the cases of a run, each with the severity of its worst attempt."""
    rank = Case(
        *(When(status=name, then=Value(rank)) for name, rank in SEVERITY.items()),
        default=Value(0),
        output_field=IntegerField(),
    )
    return run.attempts.values("case_index").annotate(worst=Max(rank))


def rows_of(run: EvalRun, indexes: Sequence[int]) -> list[CaseRow]:
    """Return the rows of the matrix for these cases, in this order."""
    attempts: dict[int, list[EvalAttempt]] = defaultdict(list)
    found = run.attempts.filter(case_index__in=indexes).defer("actual", "traceback")
    for attempt in found.order_by("case_index", "repetition"):
        attempts[attempt.case_index].append(attempt)
    results = _results([attempt for case in attempts.values() for attempt in case])
    columns = columns_of(run)
    return [_row(attempts[index], columns, results) for index in indexes if attempts[index]]


def case_counts(run: EvalRun) -> list[tuple[str, int]]:
    """Return how many cases there are by their worst attempt, the worst first."""
    ranks = Counter(row["worst"] for row in _worst(run))
    return [(str(name), ranks[rank]) for name, rank in SEVERITY.items() if ranks[rank]]


@dataclass(frozen=True)
class Segment:
    """A stretch of the bar of a run: percent from the left, percent wide."""

    status: str
    count: int
    start: float
    width: float


def bar(run: EvalRun) -> list[Segment]:
    """Return the attempts of a run as stretches of a bar: what has passed first, what is left out at the end."""
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


def changed_since(run: EvalRun, revision: int) -> list[int]:
    """Return the cases that have changed after a revision of the run."""
    changed = run.attempts.filter(revision__gt=revision).order_by("case_index")
    return list(changed.values_list("case_index", flat=True).distinct())


Results = dict[tuple[int, str], MetricResult]


def _results(attempts: Iterable[EvalAttempt]) -> Results:
    overall = MetricResult.objects.filter(attempt__in=list(attempts), invocation=None)
    return {(result.attempt_id, result.metric): result for result in overall.defer("details")}


def _row(attempts: list[EvalAttempt], columns: list[Column], results: Results) -> CaseRow:
    worst = max(attempts, key=lambda attempt: SEVERITY[Status(attempt.status)])
    cells = [
        _cell(column, [results.get((attempt.pk, column.name)) for attempt in attempts]) for column in columns
    ]
    return CaseRow(attempts[0].case_index, attempts[0].case_id, worst.status, attempts, cells)


def _cell(column: Column, results: Sequence[MetricResult | None]) -> Cell:
    given = [result for result in results if result is not None]
    if not given:
        return Cell(column.name, "", None, 0, 0)
    scores = [result.score for result in given if result.score is not None]
    rank = {MetricResult.Status.FAILED: 3, MetricResult.Status.NOT_EVALUATED: 2}
    worst = max(given, key=lambda result: rank.get(MetricResult.Status(result.status), 1))
    return Cell(
        metric=column.name,
        status=worst.status,
        score=sum(scores) / len(scores) if scores else None,
        passed=sum(result.status == MetricResult.Status.PASSED for result in given),
        judged=len(given),
        reason=worst.reason,
    )


def sessions_of(attempts: Iterable[EvalAttempt]) -> dict[int, int]:
    """Return the session's key of each attempt that has one, also while it runs."""
    attempts = list(attempts)
    linked = {attempt.pk: attempt.session_id for attempt in attempts if attempt.session_id}
    running = {attempt.realm: attempt.pk for attempt in attempts if attempt.status == Status.RUNNING}
    rows = AgentSession.objects.filter(realm__in=list(running)).order_by("-pk").values_list("realm", "pk")
    return {**linked, **{running[realm]: pk for realm, pk in rows}}


def newest_runs(evalsets: QuerySet[EvalSet]) -> dict[int, EvalRun]:
    """Return the newest run of each evalset that has one, by the evalset's key."""
    newest = EvalRun.objects.filter(evalset=OuterRef("pk")).order_by("-created_at").values("pk")[:1]
    ids = evalsets.annotate(newest_run=Subquery(newest)).values_list("newest_run", flat=True)
    runs = EvalRun.objects.filter(pk__in=[run_id for run_id in ids if run_id])
    return {run.evalset_id: run for run in runs.defer("config", "traceback")}


def reported(name: str) -> bool:
    """Tell whether a metric is only reported."""
    return name in METRICS and METRICS[name].kind is Kind.INFORMATIONAL


def details_of(result: MetricResult) -> dict[str, Any]:
    """Return a result's details."""
    found: dict[str, Any] = json.loads(result.details)
    return found
