"""Matrix of a run: cases by metrics, failures first and grouped by cause. Read-only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from django.core.paginator import Page, Paginator
from django.db.models import Case, Count, IntegerField, Max, Min, Q, Value, When

from evals_app.analysis import fixture_use, retries, statistics
from evals_app.analysis.run_summary import MetricColumn, bar, metric_columns, summary
from evals_app.analysis.statistics import Rate
from evals_app.cases.case_tags import tags_by_index
from evals_app.files.tags import sort_tags
from evals_app.metrics.metric import metric_label
from evals_app.metrics.number_differences import is_number_note
from evals_app.models import RETRY, EvalAttempt, EvalRun, MetricResult
from evals_app.runs.attempt_status import HAS_OUTCOME, has_outcome
from evals_app.runs.progress import read_progress

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
"""Rank of each status; a case has that of its worst attempt."""
BY_SEVERITY = {rank: str(status) for status, rank in SEVERITY.items()}
PAGE = 100
CAUSES_SHOWN = 12


@dataclass(frozen=True)
class Filters:
    """Filters and order of a run's cases, from the query string."""

    status: str = ""
    cause: str = ""
    metric: str = ""
    text: str = ""
    tag: str = ""
    flaky: bool = False
    order: str = "worst"
    page: str = ""

    @classmethod
    def read(cls, query: Mapping[str, Any], *, order: str = "worst") -> Self:
        """Return the filters of a query string; invalid values are ignored."""
        status, requested_order = query.get("status", ""), query.get("order", order)
        return cls(
            status=status if status in Status.values else "",
            cause=query.get("cause", ""),
            metric=query.get("metric", ""),
            text=query.get("q", "").strip(),
            tag=query.get("tag", ""),
            flaky=query.get("mixed") == "1",
            order=requested_order if requested_order in {"worst", "file"} else order,
            page=query.get("page", ""),
        )

    @property
    def narrow(self) -> bool:
        """Tell whether a filter is set."""
        return bool(self.status or self.cause or self.metric or self.text or self.tag or self.flaky)


@dataclass(frozen=True)
class Cell:
    """Result of a metric for a case over its repetitions. `score` is their mean."""

    metric: str
    status: str
    score: float | None
    passed: int
    judged: int
    reason: str = ""
    spread: statistics.Spread | None = None

    @property
    def label(self) -> str:
        """The metric's short name."""
        return metric_label(self.metric)


@dataclass(frozen=True)
class MatrixRow:
    """One case of a run: its repetitions and a cell per metric.

    `number_note` is about an answer that passed with other numbers than expected; empty if none did.
    """

    index: int
    id: str
    status: str
    attempts: list[EvalAttempt]
    cells: list[Cell]
    number_note: str = ""

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
    def cost(self) -> float | None:
        """Cost of all repetitions; None when that of one that used tokens is unknown, or none did."""
        paid = [attempt.cost for attempt in self.attempts if attempt.total_tokens]
        known_costs = [cost for cost in paid if cost is not None]
        return sum(known_costs) if known_costs and len(known_costs) == len(paid) else None

    @property
    def seconds(self) -> float | None:
        """Mean time of the repetitions that have ended."""
        times = [attempt.seconds for attempt in self.attempts if attempt.seconds is not None]
        return sum(times) / len(times) if times else None

    @cached_property
    def rate(self) -> Rate:
        """Pass rate of the repetitions that have an outcome."""
        ended = [
            attempt.status for attempt in self.attempts if has_outcome(attempt.status, attempt.error_type)
        ]
        return Rate(ended.count(Status.PASSED), len(ended))

    @property
    def is_flaky(self) -> bool:
        """Tell whether repetitions have different outcomes with the same code, data and models."""
        return 0 < self.rate.passed < self.rate.total

    @property
    def error(self) -> str:
        """The first error among the repetitions, in one line."""
        failed_attempt = next((attempt for attempt in self.attempts if attempt.error), None)
        return (
            f"{failed_attempt.error_type}: {failed_attempt.error.splitlines()[0]}" if failed_attempt else ""
        )

    @property
    def waits_for(self) -> str:
        """Reason why an attempt waits for a model; "" if none does."""
        running = (attempt.waits_for for attempt in self.attempts if attempt.status == Status.RUNNING)
        return next(filter(None, running), "")

    @property
    def notes(self) -> str:
        """Notes on its attempts."""
        return "\n".join(attempt.note for attempt in self.attempts if attempt.note)

    @property
    def cause(self) -> str:
        """Cause of its worst attempt."""
        return self.first.cause


@dataclass(frozen=True)
class CauseGroup:
    """The cases of a run that have one outcome for one cause; `rows` are those of the page."""

    status: str
    cause: str
    count: int
    rows: list[MatrixRow] = field(default_factory=list)


@dataclass(frozen=True)
class Tally:
    """Outcomes of a run's cases over their repetitions.

    Attributes:
        reliable: (k, pass^k): the probability that k repetitions of a case all pass, over all cases.
        flaky: number of cases whose repetitions have different outcomes.
    """

    rate: Rate
    reliable: list[tuple[int, float]]
    flaky: int

    @property
    def last(self) -> tuple[int, float] | None:
        """The longest k."""
        return self.reliable[-1] if len(self.reliable) > 1 else None


@dataclass(frozen=True)
class Matrix:
    """A page of a run's cases by its metrics.

    Attributes:
        groups: the rows of the page by outcome and cause; one group without a name in the order of the file.
        statuses: (outcome, cases) of the whole run, the worst first.
        causes: the commonest causes of the whole run, however the page is filtered.
        flaky: number of cases have repetitions that came to different outcomes.
        tags: the tags of the cases of the whole run; [] without any.
    """

    columns: list[MetricColumn]
    groups: list[CauseGroup]
    page: Page[CaseSummary]
    statuses: list[tuple[str, int]]
    causes: list[CauseGroup]
    flaky: int
    tags: list[str]

    @property
    def rows(self) -> list[MatrixRow]:
        """The cases of the page."""
        return [row for group in self.groups for row in group.rows]


@dataclass(frozen=True)
class CaseSummary:
    """Facts of a case that are read before its row: its worst attempt, and its outcomes."""

    index: int
    id: str
    worst: int
    cause: str
    passed: int
    judged: int

    @property
    def is_flaky(self) -> bool:
        """Tell whether its repetitions have different outcomes."""
        return 0 < self.passed < self.judged


def matrix(run: EvalRun, filters: Filters | None = None, size: int = PAGE) -> Matrix:
    """Return a page of the matrix, the worst cases first and grouped by cause, or in the order of the file.

    Args:
        size: cases of a page.
    """
    filters = filters or Filters()
    cases = read_case_summaries(run)
    matching_cases = [case for case in cases if _is_wanted(case, filters)]
    tags = tags_by_index(run.version)
    if filters.tag:
        matching_cases = [case for case in matching_cases if filters.tag in tags[case.index]]
    if filters.metric:
        missed = _cases_failing_metric(run, filters.metric)
        matching_cases = [case for case in matching_cases if case.index in missed]
    sizes = Counter((case.worst, case.cause) for case in matching_cases)
    if filters.order == "worst":
        matching_cases.sort(
            key=lambda case: (-case.worst, -sizes[case.worst, case.cause], case.cause, case.index)
        )
    page = Paginator(matching_cases, size).get_page(filters.page)
    rows = {row.index: row for row in read_case_rows(run, [case.index for case in page])}
    return Matrix(
        columns=metric_columns(run),
        groups=_group_rows(list(page), rows, sizes if filters.order == "worst" else None),
        page=page,
        statuses=_count_statuses(cases),
        causes=_group_causes(cases),
        flaky=0 if run.source == RETRY else sum(case.is_flaky for case in cases),
        tags=sort_tags(tag for case in cases for tag in tags[case.index]),
    )


def run_context(run: EvalRun) -> dict[str, Any]:
    """Return the template context of a run's summary, for its page and its socket."""
    return {
        "run": run,
        "summary": summary(run),
        "tally": tally(run),
        "bar": bar(run),
        "progress": read_progress(run),
        "retries": retries.find_retries(run),
        "fixtures": fixture_use.read_run_fixtures(run),
    }


def tally(run: EvalRun) -> Tally:
    """Return the outcomes of a run's cases, all with the same weight however often they are repeated.

    A run that retries attempts has none: its attempts were chosen because they did not pass.
    """
    if run.source == RETRY:
        return Tally(Rate(0, 0), [], 0)
    judged = [case for case in read_case_summaries(run) if case.judged]
    reliable = []
    for k in range(1, run.num_runs + 1):
        chances = [statistics.pass_hat_k(case.passed, case.judged, k) for case in judged]
        known_chances = [chance for chance in chances if chance is not None]
        if known_chances and len(known_chances) == len(judged):
            reliable.append((k, sum(known_chances) / len(known_chances)))
    flaky = sum(case.is_flaky for case in judged)
    return Tally(Rate(sum(case.passed / case.judged for case in judged), len(judged)), reliable, flaky)


def read_case_summaries(run: EvalRun) -> list[CaseSummary]:
    """Return the cases of a run in the order of their file, in one query."""
    rank = Case(
        *(When(status=name, then=Value(rank)) for name, rank in SEVERITY.items()),
        default=Value(0),
        output_field=IntegerField(),
    )
    rows = run.attempts.values("case_index").annotate(
        id=Min("case_id"),
        worst=Max(rank),
        why=Min("cause", filter=~Q(cause="")),
        passed=Count("pk", filter=Q(status=Status.PASSED)),
        judged=Count("pk", filter=HAS_OUTCOME),
    )
    values = rows.order_by("case_index").values_list("case_index", "id", "worst", "why", "passed", "judged")
    return [
        CaseSummary(index, name, worst, why or "", *counts) for index, name, worst, why, *counts in values
    ]


def _is_wanted(case: CaseSummary, filters: Filters) -> bool:
    return (
        (not filters.status or BY_SEVERITY.get(case.worst) == filters.status)
        and (not filters.cause or case.cause == filters.cause)
        and (not filters.flaky or case.is_flaky)
        and filters.text.casefold() in case.id.casefold()
    )


def _cases_failing_metric(run: EvalRun, metric: str) -> set[int]:
    """Return the cases in which a metric failed or could not run."""
    bad = (MetricResult.Status.FAILED, MetricResult.Status.NOT_EVALUATED)
    results = MetricResult.objects.filter(attempt__run=run, invocation=None, metric=metric, status__in=bad)
    return set(results.values_list("attempt__case_index", flat=True).distinct())


def _group_rows(
    window: Sequence[CaseSummary], rows: Mapping[int, MatrixRow], sizes: Mapping[tuple[int, str], int] | None
) -> list[CauseGroup]:
    if sizes is None:
        return [CauseGroup("", "", len(window), [rows[case.index] for case in window])] if window else []
    groups: dict[tuple[int, str], list[MatrixRow]] = defaultdict(list)
    for case in window:
        groups[case.worst, case.cause].append(rows[case.index])
    return [
        CauseGroup(BY_SEVERITY[worst], cause, sizes[worst, cause], case_rows)
        for (worst, cause), case_rows in groups.items()
    ]


def _count_statuses(cases: Iterable[CaseSummary]) -> list[tuple[str, int]]:
    ranks = Counter(case.worst for case in cases)
    return [(str(name), ranks[rank]) for name, rank in SEVERITY.items() if ranks[rank]]


def _group_causes(cases: Iterable[CaseSummary]) -> list[CauseGroup]:
    counted = Counter((case.worst, case.cause) for case in cases if case.cause)
    common = sorted(counted.items(), key=lambda item: (-item[1], -item[0][0], item[0][1]))
    return [CauseGroup(BY_SEVERITY[worst], cause, count) for (worst, cause), count in common[:CAUSES_SHOWN]]


def read_case_rows(run: EvalRun, indexes: Sequence[int]) -> list[MatrixRow]:
    """Return the rows of the matrix for these cases, in this order."""
    attempts: dict[int, list[EvalAttempt]] = defaultdict(list)
    rows = run.attempts.filter(case_index__in=indexes).defer("actual", "traceback", "differences", "earlier")
    for attempt in rows.order_by("case_index", "repetition"):
        attempts[attempt.case_index].append(attempt)
    results = _overall_results([attempt for case in attempts.values() for attempt in case])
    columns = metric_columns(run)
    return [_build_row(attempts[index], columns, results) for index in indexes if attempts[index]]


def changed_since(run: EvalRun, revision: int) -> list[int]:
    """Return the cases that have changed after a revision of the run."""
    changed = run.attempts.filter(revision__gt=revision).order_by("case_index")
    return list(changed.values_list("case_index", flat=True).distinct())


Results = dict[tuple[int, str], MetricResult]


def _overall_results(attempts: Iterable[EvalAttempt]) -> Results:
    overall = MetricResult.objects.filter(attempt__in=[attempt.pk for attempt in attempts], invocation=None)
    return {(result.attempt_id, result.metric): result for result in overall.defer("details")}


def _build_row(attempts: list[EvalAttempt], columns: list[MetricColumn], results: Results) -> MatrixRow:
    worst = max(attempts, key=lambda attempt: SEVERITY[Status(attempt.status)])
    by_column = [[results.get((attempt.pk, column.name)) for attempt in attempts] for column in columns]
    cells = [
        _build_cell(column, column_results) for column, column_results in zip(columns, by_column, strict=True)
    ]
    notes = (result.reason for column_results in by_column for result in column_results if result)
    number_note = next(filter(is_number_note, notes), "")
    return MatrixRow(attempts[0].case_index, attempts[0].case_id, worst.status, attempts, cells, number_note)


def _build_cell(column: MetricColumn, results: Sequence[MetricResult | None]) -> Cell:
    present = [result for result in results if result is not None]
    if not present:
        return Cell(column.name, "", None, 0, 0)
    spread = statistics.spread(result.score for result in present if result.score is not None)
    rank = {MetricResult.Status.FAILED: 3, MetricResult.Status.NOT_EVALUATED: 2}
    worst = max(present, key=lambda result: rank.get(MetricResult.Status(result.status), 1))
    return Cell(
        metric=column.name,
        status=worst.status,
        score=spread.mean if spread else None,
        passed=sum(result.status == MetricResult.Status.PASSED for result in present),
        judged=len(present),
        reason=worst.reason,
        spread=spread,
    )
