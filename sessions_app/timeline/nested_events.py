"""A page of the events of a nested run, as the session page shows them below the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sessions_app.paths import session_url
from sessions_app.store.models import NestedRun
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.items import TimelineItem
from sessions_app.timeline.timeline_reader import read_timeline

PAGE_SIZE = 50
"""Events of a page."""


@dataclass(frozen=True, slots=True)
class NestedEvents:
    """A page of the events of a nested run.

    Attributes:
        page_url: address of the page of the run's session.
        items: the events.
        is_first: it is the first page.
        next_seq: number of the last event of the page, the cursor of the next page.
        more: number of stored events after the page.
        omitted: number of events that are not stored, on the last page only.
    """

    run: NestedRun
    page_url: str
    items: Sequence[TimelineItem]
    is_first: bool
    next_seq: int
    more: int
    omitted: int

    @property
    def is_remote(self) -> bool:
        """Tell whether the page has events that another server sent (A2A)."""
        return any(item.summary["remote"] for item in self.items)


def read_nested_events(run: NestedRun, after: int = 0) -> NestedEvents:
    """Return a page of the events of a nested run after a number."""
    window = windows.after(run.child, after, PAGE_SIZE)
    page_url = session_url(run.child)
    items = [item for group in read_timeline(run.child, window, titles=False).groups for item in group.items]
    for item in items:
        item.nested_page_url = page_url
    next_seq = window.last_shown or after
    more = max(0, window.last_seq - next_seq)
    is_last = run.finished_at is not None and not more
    return NestedEvents(
        run=run,
        page_url=page_url,
        items=items,
        is_first=not after,
        next_seq=next_seq,
        more=more,
        omitted=run.omitted_count if is_last else 0,
    )
