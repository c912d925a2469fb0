"""Mergeable histograms of durations with fixed logarithmic cells. Pure.

A cell reaches from `BASE ** n` to `BASE ** (n + 1)` seconds, and a duration is read back as the middle of its cell. So
quantiles are at most 5 % off (`MAX_ERROR`). Durations below 0.1 ms count as 0.1 ms.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping

from sessions_app.statistics import Estimate, Interval, Z

BASE = 1.1
MAX_ERROR = math.sqrt(BASE) - 1
"""Relative error of a duration that is read back: 4.9 %."""

SHORTEST = 1e-4
"""Shortest distinguishable duration, in seconds."""

LEAST_FOR_INTERVAL = 6
"""Minimum number of durations for an interval of the median: it would contain all of fewer durations."""

Histogram = Counter[int]
"""Number of durations by the number of their cell."""


def find_cell(seconds: float) -> int:
    """Return the number of the cell of a duration."""
    return math.floor(math.log(max(seconds, SHORTEST)) / math.log(BASE))


def dump(histogram: Mapping[int, int]) -> str:
    """Return a histogram as JSON."""
    return json.dumps({str(cell): histogram[cell] for cell in sorted(histogram)}, separators=(",", ":"))


def load(text: str) -> Histogram:
    """Return the histogram of a JSON text."""
    return Counter({int(cell): count for cell, count in json.loads(text).items()})


def quantile(histogram: Mapping[int, int], share: float) -> float | None:
    """Return the duration that a share of the durations does not exceed (nearest rank); None without durations."""
    total = sum(histogram.values())
    return _cell_middle(_cell_at(histogram, math.ceil(share * total))) if total else None


def median(histogram: Mapping[int, int]) -> Estimate | None:
    """Return the median with its interval by order statistics; None for too few durations."""
    total = sum(histogram.values())
    if total < LEAST_FOR_INTERVAL:
        return None
    half = Z * math.sqrt(total) / 2
    low = _cell_at(histogram, max(1, math.floor(total / 2 - half)))
    high = _cell_at(histogram, min(total, math.ceil(total / 2 + half) + 1))
    middle = _cell_middle(_cell_at(histogram, math.ceil(total / 2)))
    return Estimate(middle, Interval(BASE**low, BASE ** (high + 1)))


def _cell_at(histogram: Mapping[int, int], rank: int) -> int:
    """Return the cell of the duration with a rank, from 1."""
    count = 0
    for cell in sorted(histogram):
        count += histogram[cell]
        if count >= rank:
            break
    return cell


def _cell_middle(cell: int) -> float:
    return float(BASE ** (cell + 0.5))
