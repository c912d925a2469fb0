"""Measured figures and their table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """A measured value with its unit, budget and peer; None if there is none.

    `more_is_better`: a rate meets its budget from below up, a time from above down.
    """

    what: str
    unit: str
    ours: float
    budget: float | None = None
    peer: float | None = None
    peer_name: str = ""
    more_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """Factor by which it is better than the peer; below 1 is worse."""
        if not self.peer or not self.ours:
            return None
        return self.ours / self.peer if self.more_is_better else self.peer / self.ours

    @property
    def met(self) -> str:
        """`met`, `MISSED`, or empty without a budget."""
        if self.budget is None:
            return ""
        return (
            "met"
            if (self.ours >= self.budget) == self.more_is_better or self.ours == self.budget
            else "MISSED"
        )

    def as_line(self) -> str:
        """Return the figure as a line of JSON, the output of a benchmark's process."""
        return json.dumps(asdict(self))


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as a text table."""
    head = ("what", "DevUI", "budget", "", "peer", "times better", "peer is")
    rows = [head, *map(_row, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    return (
        figure.what,
        _amount(figure.ours, figure.unit),
        _amount(figure.budget, figure.unit),
        figure.met,
        _amount(figure.peer, figure.unit),
        "" if figure.ratio is None else f"{figure.ratio:.1f}",
        figure.peer_name,
    )


def _amount(amount: float | None, unit: str) -> str:
    if amount is None:
        return ""
    return f"{amount:,.0f} {unit}" if amount >= 100 else f"{amount:.2f} {unit}"
