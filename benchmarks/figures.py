"""A measured figure, and the table of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """What was measured, in which unit, beside the budget and the peer; None: there is none.

    `more_is_better` says how to read it: a rate is met from the budget up, a time from the budget down.
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
        """How many times better than the peer; below 1 is worse."""
        if not self.peer or not self.ours:
            return None
        return self.ours / self.peer if self.more_is_better else self.peer / self.ours

    @property
    def met(self) -> str:
        """Whether the budget was met."""
        if self.budget is None:
            return ""
        return (
            "met"
            if (self.ours >= self.budget) == self.more_is_better or self.ours == self.budget
            else "MISSED"
        )

    def as_line(self) -> str:
        """Return the figure as a line of JSON, as a benchmark's process hands it over."""
        return json.dumps(asdict(self))


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as a table of text."""
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
