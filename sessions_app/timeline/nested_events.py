"""Timeline items of the events of a nested run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from sessions_app.state.key_changes import BRIEF_LENGTH, KeyChange, truncate
from sessions_app.store import scopes
from sessions_app.store.events.attribution import UNKNOWN
from sessions_app.store.events.call_pairing import pair_events
from sessions_app.store.events.summary import CALLS_IN_SUMMARY
from sessions_app.store.models import AgentSession, ChangeCause, Event, NestedEvent, NestedRun
from sessions_app.timeline.costs import costs_of_events
from sessions_app.timeline.items import TimelineItem, elapsed_seconds
from sessions_app.timeline.nested_runs import HeadsByCall, events_of, runs_inside

PAGE_SIZE = 50
"""Events of a page."""

HAS_DELTA = '"delta":['
"""Text that only summaries of events with a state delta contain."""


@dataclass(frozen=True, slots=True)
class NestedEvents:
    """A page of the events of a nested run.

    Attributes:
        state: state at the start of the run, on the first page only.
        next_number: number of the last event of the page, the cursor of the next page.
        more: number of stored events after the page.
        omitted: number of events that are not stored, on the last page only.
    """

    session: AgentSession
    run: NestedRun
    items: list[TimelineItem]
    state: dict[str, Any] | None
    next_number: int
    more: int
    omitted: int

    @property
    def is_remote(self) -> bool:
        """Tell whether the page has events that another server sent (A2A)."""
        return any(item.summary["remote"] for item in self.items)


def read_nested_events(session: AgentSession, run: NestedRun, after: int = 0) -> NestedEvents:
    """Return a page of the events of a nested run after a number. At most five queries, on a lone page three."""
    rows = list(events_of(run).filter(number__gt=after)[: PAGE_SIZE + 1])
    page, has_more = rows[:PAGE_SIZE], len(rows) > PAGE_SIZE
    more = events_of(run).filter(number__gt=page[-1].number).count() if has_more else 0
    inner: Mapping[int, HeadsByCall] = {}
    if any(event.decoded_summary["calls"] for event in page):
        is_only_page = not (after or has_more)
        calling = (
            page if is_only_page else events_of(run).filter(summary__contains=CALLS_IN_SUMMARY).defer("data")
        )
        inner = runs_inside(run, [_as_event(run, row) for row in calling])
    state = json.loads(run.state)
    values = {key: scopes.dumps(value) for key, value in state.items()}
    if after:
        earlier = events_of(run).filter(number__lte=after, summary__contains=HAS_DELTA)
        for data in earlier.values_list("data", flat=True):
            values |= {key: scopes.dumps(value) for key, value in _delta(data).items()}
    is_last = run.finished_at is not None and not has_more
    return NestedEvents(
        session=session,
        run=run,
        items=_items(run, page, values, inner),
        state=None if after else state,
        next_number=page[-1].number if page else after,
        more=more,
        omitted=run.event_count - run.stored_count if is_last else 0,
    )


def _items(
    run: NestedRun, rows: Sequence[NestedEvent], values: dict[str, str], inner: Mapping[int, HeadsByCall]
) -> list[TimelineItem]:
    """Return the items of nested events. `values` are the JSON texts of the state before them, by key."""
    items: list[TimelineItem] = []
    previous: Event | None = None
    events = [_as_event(run, row) for row in rows]
    costs, pairs = costs_of_events(events), pair_events(events)
    for row, event in zip(rows, events, strict=True):
        url = reverse("nested-event-json", kwargs={"pk": run.session_id, "run": run.pk, "number": row.number})
        elapsed = elapsed_seconds(event, previous, pairs)
        items.append(
            TimelineItem(
                event,
                _changes(row, values),
                elapsed,
                before=previous,
                nested_runs=inner.get(event.seq, {}),
                cost=costs.get(event.seq),
                nested_url=url,
            )
        )
        previous = event
    return items


def _as_event(run: NestedRun, row: NestedEvent) -> Event:
    """Return a nested event as an unsaved event, which the timeline's templates can render."""
    return Event(
        session_id=run.session_id,
        seq=row.number,
        event_id=row.event_id,
        invocation_id=run.ref,
        author=row.author,
        kind=row.kind,
        timestamp=row.timestamp,
        branch=row.branch,
        is_final=row.is_final,
        total_tokens=row.total_tokens,
        summary=row.summary,
    )


def _changes(row: NestedEvent, values: dict[str, str]) -> list[KeyChange]:
    """Return the changes of an event, and update `values` with them."""
    changes: list[KeyChange] = []
    if not row.decoded_summary["delta"]:
        return changes
    for name, value in _delta(row.data).items():
        scope, key = scopes.scope_of(name)
        old, new = values.get(name), scopes.dumps(value)
        texts = (truncate(old, BRIEF_LENGTH), truncate(new, BRIEF_LENGTH))
        changes.append(KeyChange(str(scope), key, *texts, note="", cause=ChangeCause.APPEND, writer=UNKNOWN))
        values[name] = new
    return changes


def _delta(data: str) -> dict[str, Any]:
    delta: dict[str, Any] = (json.loads(data).get("actions") or {}).get("stateDelta") or {}
    return delta
