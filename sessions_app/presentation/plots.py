"""Places of values in plots, for templates that draw them as SVG. Pure.

Coordinates are percent of the width of a drawing, so that it fits every window, and pixels of its height.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

SCALE_STEPS = 4
"""Most steps of a scale."""


@dataclass(frozen=True, slots=True)
class PlotArea:
    """An area with values in columns of equal width.

    Attributes:
        limit: the value at the top; 0 is at the bottom.
    """

    columns: int
    top: float
    height: float
    limit: float = 1.0

    @property
    def bottom(self) -> float:
        """The y coordinate of the value 0."""
        return self.top + self.height

    def x(self, column: float) -> float:
        """Return the x coordinate of the middle of a column, counted from 0."""
        return round(100 * (column + 0.5) / self.columns, 2)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        return round(self.top + self.height * (1 - value / self.limit), 2)


def scale_up_to(largest: float, smallest_step: float = 0.0) -> list[float]:
    """Return the values of a scale: multiples of 1, 2 or 5 times a power of ten, from 0 up to the largest value."""
    largest = largest or 1.0
    power = 10.0 ** math.floor(math.log10(largest / SCALE_STEPS))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * SCALE_STEPS >= largest)
    step = max(step, smallest_step)
    return [round(tick * step, 9) for tick in range(math.ceil(round(largest / step, 9)) + 1)]


def points_text(points: Iterable[tuple[float, float]]) -> str:
    """Return the attribute `points` of a polyline or polygon."""
    return " ".join(f"{x},{y}" for x, y in points)
