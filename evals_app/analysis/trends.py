"""Trend of an evalset over its runs: pass rates with intervals, changes between runs, and histories of cases.

Read-only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from django.core.paginator import Page, Paginator
from django.db.models import Count, Min, Q, Sum

from evals_app.analysis.comparability import read_cases
from evals_app.analysis.comparison import RunDifference
from evals_app.analysis.outcomes import CaseKey
from evals_app.analysis.run_differences import read_currency, read_differences
from evals_app.analysis.statistics import Rate
from evals_app.models import COUNTS_IN_HISTORY, EvalAttempt, EvalRun, EvalSet
from evals_app.runs.attempt_status import HAS_OUTCOME
from sessions_app.presentation.plots import PlotArea, points_text

Status = EvalAttempt.Status
RUNS = 40
"""Number of newest runs that are drawn."""
CASES = 50
"""Number of histories on a page."""

LANES = (
    ("code", {"code", "commit"}),
    ("models", {"models"}),
    ("data", {"evalset"}),
    ("judges", {"judged by"}),
)
"""Possible changes between two runs, one line of the drawing each."""


@dataclass(frozen=True)
class Point:
    """A run in the trend. `changes`: differences from the run before; cost None: unknown."""

    run: EvalRun
    rate: Rate
    seconds: float | None
    cost: float | None
    currency: str
    tokens: int
    changes: list[RunDifference]

    def find_changes(self, names: set[str]) -> list[RunDifference]:
        """Return the changes of some names."""
        return [change for change in self.changes if change.what in names]


@dataclass(frozen=True)
class Stop:
    """Outcome of a case in one run; `attempt` is the key of its worst attempt."""

    passed: int
    judged: int
    attempt: int | None
    run_id: str

    @property
    def level(self) -> str:
        """The level of the outcome: all, some or none passed, or not judged."""
        if not self.judged:
            return "unknown"
        return "all" if self.passed == self.judged else "some" if self.passed else "none"


@dataclass(frozen=True)
class CaseHistory:
    """Outcomes of one case over the runs; None where a run did not contain it."""

    key: CaseKey
    stops: list[Stop | None]

    @cached_property
    def rate(self) -> Rate:
        """All its stored outcomes together."""
        stops = [stop for stop in self.stops if stop]
        return Rate(sum(stop.passed for stop in stops), sum(stop.judged for stop in stops))

    @property
    def turns(self) -> int:
        """Number of changes of its outcome from one run to the next."""
        levels = [stop.level for stop in self.stops if stop and stop.judged]
        return sum(previous != following for previous, following in pairwise(levels))


@dataclass(frozen=True)
class EvalsetTrend:
    """The newest runs of an evalset, the oldest first, and a page of its cases."""

    points: list[Point]
    histories: Page[CaseHistory]
    baseline: Point | None

    @property
    def drawing(self) -> TrendDrawing:
        """The trend as a drawing."""
        return TrendDrawing(self.points, self.baseline)


def read_evalset_trend(evalset: EvalSet, page: str = "") -> EvalsetTrend:
    """Return the trend of an evalset over its newest runs that have ended, without variants and repeats of a part."""
    not_ended = (*EvalRun.ACTIVE, EvalRun.Status.FAILED)
    runs = EvalRun.objects.select_related("version").filter(evalset=evalset).exclude(status__in=not_ended)
    newest = runs.filter(COUNTS_IN_HISTORY).order_by("-created_at")
    shown_runs = list(newest.defer("traceback", "version__content")[:RUNS])[::-1]
    stops = _read_stops(shown_runs)
    points = list(_iter_points(shown_runs, stops))
    histories = sorted(
        _case_histories(shown_runs, stops), key=lambda history: (-history.turns, history.rate.value or 0.0)
    )
    baseline = next((point for point in points if point.run.baseline), None)
    return EvalsetTrend(points, Paginator(histories, CASES).get_page(page), baseline)


Stops = Mapping[str, Mapping[int, Stop]]
"""run → position of the case → its outcome"""


def _read_stops(runs: Sequence[EvalRun]) -> Stops:
    attempts = EvalAttempt.objects.filter(run__in=[run.pk for run in runs])
    counted = attempts.values_list("run_id", "case_index").annotate(
        passed=Count("pk", filter=Q(status=Status.PASSED)),
        judged=Count("pk", filter=HAS_OUTCOME),
        bad=Min("pk", filter=HAS_OUTCOME & ~Q(status=Status.PASSED)),
        first=Min("pk"),
    )
    stops: dict[str, dict[int, Stop]] = defaultdict(dict)
    for run_id, index, passed, judged, bad, first in counted:
        stops[run_id][index] = Stop(passed, judged, bad or first, run_id)
    return stops


def _iter_points(runs: Sequence[EvalRun], stops: Stops) -> Iterator[Point]:
    costs = _run_costs(runs)
    before: EvalRun | None = None
    for run in runs:
        judged = [stop for stop in stops.get(run.pk, {}).values() if stop.judged]
        rate = Rate(sum(stop.passed / stop.judged for stop in judged), len(judged))
        changes = read_differences(before, run) if before else []
        took = run.finished_at - run.started_at if run.finished_at and run.started_at else None
        cost, tokens = costs.get(run.pk, (None, 0))
        currency = read_currency(run)
        yield Point(run, rate, took, cost, currency, tokens, changes)
        before = run


def _run_costs(runs: Sequence[EvalRun]) -> dict[str, tuple[float | None, int]]:
    rows = EvalAttempt.objects.filter(run__in=[run.pk for run in runs]).values("run_id")
    summed = rows.annotate(
        unpriced=Count("pk", filter=Q(cost=None, total_tokens__gt=0)),
        paid=Sum("cost"),
        used=Sum("total_tokens"),
    )
    return {row["run_id"]: (None if row["unpriced"] else row["paid"], row["used"] or 0) for row in summed}


def _case_histories(runs: Sequence[EvalRun], stops: Stops) -> Iterator[CaseHistory]:
    by_case: dict[CaseKey, list[Stop | None]] = {}
    for column, run in enumerate(runs):
        for index, case in enumerate(read_cases(run.version)):
            if stop := stops.get(run.pk, {}).get(index):
                by_case.setdefault(case.key, [None] * len(runs))[column] = stop
    yield from (CaseHistory(key, stops_of_case) for key, stops_of_case in by_case.items())


MIN_COLUMNS = 7
"""Minimum number of runs that the drawing has room for."""
TOP, HEIGHT = 12.0, 180.0
LANES_Y, LANE_HEIGHT = TOP + HEIGHT + 18, 20.0
BAR_HEIGHT = 36.0
SECONDS_Y = LANES_Y + LANE_HEIGHT * len(LANES) + BAR_HEIGHT
COST_Y = SECONDS_Y + 12 + BAR_HEIGHT


@dataclass(frozen=True)
class RunDot:
    """A run in the drawing. `seconds_y`, `cost_y`: the tops of its bars; cost None: unknown, or 0."""

    point: Point
    x: float
    y: float
    low: float
    high: float
    seconds_y: float
    cost_y: float | None


@dataclass(frozen=True)
class Mark:
    """A change before a run."""

    x: float
    changes: list[RunDifference]


@dataclass(frozen=True)
class Lane:
    """A line of the drawing below the rates."""

    name: str
    y: float
    marks: list[Mark]


@dataclass(frozen=True)
class TrendDrawing:
    """Layout of a trend: the pass rate above, changes, time and cost below."""

    points: list[Point]
    baseline: Point | None
    seconds_y: ClassVar[float] = SECONDS_Y
    cost_y: ClassVar[float] = COST_Y
    height: ClassVar[float] = COST_Y + 22

    @property
    def grid(self) -> list[tuple[float, str]]:
        """Lines of the rates: (y, label)."""
        return [(self.rates.y(share), f"{round(100 * share)} %") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]

    @cached_property
    def rates(self) -> PlotArea:
        """The area of the pass rates."""
        return PlotArea(max(MIN_COLUMNS, len(self.points)), TOP, HEIGHT)

    @cached_property
    def dots(self) -> list[RunDot]:
        """The runs with a pass rate."""
        slowest = max((point.seconds or 0.0 for point in self.points), default=0.0) or 1.0
        dearest = max((self.known_cost(point) or 0.0 for point in self.points), default=0.0) or 1.0
        seconds = PlotArea(self.rates.columns, SECONDS_Y - BAR_HEIGHT, BAR_HEIGHT, slowest)
        costs = PlotArea(self.rates.columns, COST_Y - BAR_HEIGHT, BAR_HEIGHT, dearest)
        return [
            RunDot(
                point,
                self.rates.x(column),
                self.rates.y(point.rate.value or 0.0),
                self.rates.y(point.rate.interval.low),
                self.rates.y(point.rate.interval.high),
                seconds.y(point.seconds or 0.0),
                costs.y(cost) if (cost := self.known_cost(point)) else None,
            )
            for column, point in enumerate(self.points)
            if point.rate.total
        ]

    def known_cost(self, point: Point) -> float | None:
        """Return the cost of a run; None when it is unknown, or in another currency than that of the newest run."""
        return point.cost if point.currency == self.points[-1].currency else None

    @property
    def line(self) -> str:
        """The points of the line through the rates."""
        return points_text((dot.x, dot.y) for dot in self.dots)

    @property
    def band(self) -> str:
        """The points of the band of the intervals."""
        upper = [(dot.x, dot.high) for dot in self.dots]
        lower = [(dot.x, dot.low) for dot in reversed(self.dots)]
        return points_text([*upper, *lower])

    @property
    def baseline_y(self) -> float | None:
        """Vertical position of the baseline's pass rate."""
        return self.rates.y(self.baseline.rate.value or 0.0) if self.baseline else None

    @property
    def lanes(self) -> list[Lane]:
        """Changes, one line per kind."""
        return [
            Lane(
                name,
                LANES_Y + LANE_HEIGHT * number,
                [
                    Mark(self.rates.x(column), changes)
                    for column, point in enumerate(self.points)
                    if (changes := point.find_changes(names))
                ],
            )
            for number, (name, names) in enumerate(LANES)
        ]

    @property
    def has_cost(self) -> bool:
        """Tell whether the cost of a run is known."""
        return any(self.known_cost(point) is not None for point in self.points)
