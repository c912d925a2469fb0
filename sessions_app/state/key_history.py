"""History of a key: all writes, newest first, in pages."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.db.models import CharField
from django.db.models.functions import Substr

from sessions_app.presentation.plots import PlotArea, points_text
from sessions_app.state.key_changes import BRIEF_LENGTH, truncate
from sessions_app.store.models import Scope, StateChange
from sessions_app.store.state import history

PAGE = 20
PLOT_HEIGHT = 48
MIN_PLOTTED = 3
"""Numbers from which they are drawn."""

MAX_PLOTTED = 1e15
"""Numbers of this size or larger are not drawn."""
WHOLE_LENGTH = 4_000
"""Maximum length of values that are included in full; longer values are truncated and loaded on request."""


@dataclass(frozen=True, slots=True)
class PastWrite:
    """One write of a key.

    Attributes:
        text: the JSON value; None if it is longer than `WHOLE_LENGTH` or the key was removed.
        brief: the truncated value; None if the key was removed.
        old: the truncated value before; None if there was none, or it is not known.
        is_new: whether the key had no value before.
    """

    change: StateChange
    text: str | None
    brief: str | None
    old: str | None
    is_new: bool

    @property
    def is_short(self) -> bool:
        """Tell whether the old and the new value can stand side by side: both are known and short."""
        values = (self.old, self.brief)
        return None not in values and all(len(value) < BRIEF_LENGTH for value in values if value)

    @property
    def number(self) -> float | None:
        """The value if it is a number that can be drawn."""
        value = json.loads(self.text) if self.text else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if abs(value) < MAX_PLOTTED else None


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """A page of a key's writes.

    Attributes:
        older: cursor of the next page; None on the last page.
        count: total number of writes, counted up to `history.WRITES_COUNTED`.
    """

    writes: list[PastWrite]
    older: int | None
    count: int

    @property
    def is_counted_out(self) -> bool:
        """Tell whether the count has reached its limit."""
        return self.count >= history.WRITES_COUNTED

    @property
    def plot_points(self) -> str:
        """Points of a line through the page's values, oldest first; empty unless all are numbers, at least three."""
        numbers = [write.number for write in reversed(self.writes)]
        drawn = [number for number in numbers if number is not None]
        if len(drawn) < max(len(numbers), MIN_PLOTTED):
            return ""
        lowest = min(*drawn, 0)
        area = PlotArea(len(drawn), top=2, height=PLOT_HEIGHT - 4, limit=max(*drawn, 0) - lowest or 1)
        return points_text((area.x(column), area.y(number - lowest)) for column, number in enumerate(drawn))


def read_key_history(
    change: StateChange, *, before: int | None = None, here: int | None = None
) -> KeyHistory:
    """Return a page of the writes of the key that a ledger row wrote. Three queries.

    Args:
        change: any write of the key.
        before: cursor from `older`.
        here: primary key of a session; restricts the page to its writes.
    """
    key_writes = history.read_key_writes(Scope(change.scope), change.owner_id, change.key)
    writes = key_writes if here is None else key_writes.filter(session__pk=here)
    page = writes if before is None else writes.filter(position__lt=before)
    text_start = Substr("value", 1, WHOLE_LENGTH + 1, output_field=CharField())
    rows = page.select_related("session").defer("value", "private").annotate(text=text_start)
    writes_and_next = list(rows[: PAGE + 1])
    older = writes_and_next[PAGE - 1].position if len(writes_and_next) > PAGE else None
    counted = key_writes.annotate(count=history.write_count()).values_list("count", flat=True).first()
    return KeyHistory(
        [
            _past_write(row, earlier, is_last=older is None, is_whole=here is None)
            for row, earlier in zip(writes_and_next[:PAGE], [*writes_and_next[1:], None], strict=False)
        ],
        older,
        counted or 0,
    )


def _value_text(row: StateChange) -> str | None:
    """Return the start of the JSON value that a query has read; None if the key was removed."""
    return None if row.removed else getattr(row, "text", None)


def _past_write(row: StateChange, earlier: StateChange | None, *, is_last: bool, is_whole: bool) -> PastWrite:
    text = _value_text(row)
    fits = text is not None and len(text) <= WHOLE_LENGTH
    had_none = earlier.removed if earlier else is_last
    return PastWrite(
        change=row,
        text=text if fits else None,
        brief=truncate(text, BRIEF_LENGTH),
        old=truncate(_value_text(earlier), BRIEF_LENGTH) if earlier and is_whole else None,
        is_new=is_whole and had_none and not row.removed,
    )
