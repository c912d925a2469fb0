"""Layout of plots of trends. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sessions_app.presentation.plots import PlotArea, points_text, scale_up_to
from sessions_app.trends.trend_queries import Group, Trend

SMALLEST_STEP = {"seconds": 0.001, "tokens": 1.0, "number": 1.0}
"""Smallest step of the scale by unit: smaller ones would have equal labels."""

LABELS = 6
"""Approximate number of times on the axis."""

BAR_WIDTH = 0.7
"""Share of an hour or day that its bar takes."""


@dataclass(frozen=True, slots=True)
class Dot:
    """Value of a group in an hour or day (`time`: its name), and the search for the sessions behind it."""

    x: float
    y: float
    start: int
    value: float
    time: str
    query: str


@dataclass(frozen=True, slots=True)
class Line:
    """Values of a group. `segments`: points of polylines, divided at gaps; `color`: number of the color, from 1."""

    color: int
    group: Group
    dots: list[Dot]
    segments: list[str]


@dataclass(frozen=True)
class Plot:
    """Plot of a figure of all groups over time."""

    trend: Trend
    title: str
    figure: str
    area_height: float = 150.0
    labels: int = LABELS

    @property
    def name(self) -> str:
        """Name of the plot."""
        measure = self.trend.filter.measure
        return f"{measure.label}: {self.title.lower()}" if len(measure.figures) > 1 else measure.label

    @cached_property
    def scale(self) -> list[float]:
        """Values of the horizontal lines."""
        values = [value for group in self.trend.groups for _, value in self._group_values(group)]
        return scale_up_to(max(values, default=0.0), SMALLEST_STEP.get(self.trend.unit, 0.0))

    @cached_property
    def area(self) -> PlotArea:
        """The area of the lines."""
        return PlotArea(len(self.trend.starts), top=10.0, height=self.area_height, limit=self.scale[-1])

    @property
    def height(self) -> float:
        """Height of the drawing in pixels."""
        return self.area.bottom + 22

    @property
    def grid(self) -> list[tuple[float, float]]:
        """Horizontal lines: y and value."""
        return [(self.area.y(value), value) for value in self.scale]

    @property
    def times(self) -> list[tuple[float, str]]:
        """Times on the axis: x and day, or the hour if the time before has the same day."""
        interval = max(1, round(len(self.trend.starts) / self.labels))
        ticks, shown_day = [], ""
        for start in self.trend.starts[interval // 2 :: interval]:
            day, _, hour = self.trend.filter.time_label(start).partition(", ")
            ticks.append((self._time_x(start), hour if hour and day == shown_day else day))
            shown_day = day
        return ticks

    @cached_property
    def lines(self) -> list[Line]:
        """Lines of the groups that have values."""
        return [
            Line(color, group, dots, list(self._polyline_points(dots)))
            for color, group in enumerate(self.trend.groups, start=1)
            if (dots := self._group_dots(group))
        ]

    @property
    def bars(self) -> list[tuple[float, float, float, float]]:
        """Bars of the values: x, y, width and height."""
        width = round(BAR_WIDTH * 100 / len(self.trend.starts), 3)
        return [
            (round(dot.x - width / 2, 3), dot.y, width, round(self.area.bottom - dot.y, 2))
            for line in self.lines
            for dot in line.dots
        ]

    def _group_values(self, group: Group) -> Iterator[tuple[int, float]]:
        for start, figures in group.points.items():
            if (value := getattr(figures, self.figure)) is not None:
                yield start, value

    def _group_dots(self, group: Group) -> list[Dot]:
        criteria = self.trend.filter
        return [
            Dot(
                self._time_x(start),
                self.area.y(value),
                start,
                value,
                criteria.time_label(start),
                criteria.session_query(group.name, start),
            )
            for start, value in self._group_values(group)
        ]

    def _polyline_points(self, dots: list[Dot]) -> Iterator[str]:
        """Yield the points of each polyline. An hour or day without a value divides it."""
        segment: list[Dot] = []
        for dot in dots:
            if segment and dot.start - segment[-1].start > self.trend.filter.step:
                yield points_text((dot.x, dot.y) for dot in segment)
                segment = []
            segment.append(dot)
        yield points_text((dot.x, dot.y) for dot in segment)

    def _time_x(self, start: int) -> float:
        starts = self.trend.starts
        return self.area.x((start - starts.start) / starts.step)


def build_plots(trend: Trend) -> list[Plot]:
    """Return the plots of a trend."""
    return [Plot(trend, title, figure) for title, figure in trend.filter.measure.figures]


@dataclass(frozen=True, slots=True)
class TableRow:
    """Values of an hour or day. Each cell has the values of a group in all plots; None: no values."""

    time: str
    cells: list[list[float | None] | None]


def build_table(trend: Trend) -> list[TableRow]:
    """Return the values of a trend as a table, the newest first."""
    names = [name for _, name in trend.filter.measure.figures]
    rows = []
    for start in reversed(trend.starts):
        points = [group.points.get(start) for group in trend.groups]
        if any(points):
            cells = [[getattr(point, name) for name in names] if point else None for point in points]
            rows.append(TableRow(trend.filter.time_label(start), cells))
    return rows
