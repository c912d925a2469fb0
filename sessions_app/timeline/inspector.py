"""Inspector: one event in full, with parts, state delta, actions, details and stored JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sessions_app.presentation import value_diff
from sessions_app.presentation.value_diff import DiffLine
from sessions_app.state.key_changes import KeyChange, read_key_changes
from sessions_app.store import events
from sessions_app.store.events.call_pairing import PairedCalls, pair_events
from sessions_app.store.models import AgentSession, Event
from sessions_app.timeline import content_parts, event_actions, event_details
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.content_parts import Part
from sessions_app.timeline.event_actions import Action, Compaction
from sessions_app.timeline.event_details import EventDetails
from sessions_app.timeline.event_fields import object_field
from sessions_app.timeline.event_window import InvocationTotals
from sessions_app.timeline.groups import InvocationGroup
from sessions_app.timeline.items import TimelineItem
from sessions_app.timeline.timeline_reader import Timeline, read_timeline

VALUE_LIMIT = 20_000
"""Characters of an old or new value in the delta; the key's history has the full value."""

CHANGES_SHOWN = 40
"""Keys of the delta that are shown at first."""

MAX_CHANGES = 200
"""Keys of the delta that are shown on request; the JSON has all."""


@dataclass(frozen=True, slots=True)
class Partner:
    """The event that answers a call, or that made an answered call, and the seconds between them."""

    seq: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A key that the event wrote; `lines` compare long old and new values."""

    change: KeyChange
    lines: list[DiffLine]


@dataclass(frozen=True, slots=True)
class Inspection:
    """An event as the inspector shows it.

    Attributes:
        item: the event's timeline item.
        body: the event in wire form.
        partners: for each of its calls, the event that answers it; without calls, for each of its results, the event of
            its call. None: there is none.
        offers_more: whether more changes can be requested.
        totals: totals of its invocation.
        compaction: its compaction summary; `item.covers` has the summarized events.
        rewinds_to: seq of the first event that it rewinds; 0 if it is no rewind.
    """

    item: TimelineItem
    body: dict[str, Any]
    parts: list[Part]
    partners: list[Partner | None]
    changes: list[ShownChange]
    offers_more: bool
    details: EventDetails
    totals: InvocationTotals | None
    compaction: Compaction | None
    rewinds_to: int

    @property
    def event(self) -> Event:
        """The event's row."""
        return self.item.event

    @property
    def placed_parts(self) -> list[tuple[Part, Partner | None]]:
        """The parts, each with its partner event."""
        partners = iter(self.partners)
        paired = "functionCall" if self.item.summary["calls"] else "functionResponse"
        return [(part, next(partners, None) if part.type == paired else None) for part in self.parts]

    @property
    def actions(self) -> list[Action]:
        """The event's actions, in words."""
        return event_actions.describe_actions(self._action_fields)

    @property
    def saved_versions(self) -> dict[str, Any]:
        """Version of each artifact that the event saved, by name."""
        return object_field(self._action_fields, "artifactDelta")

    @property
    def changes_count(self) -> int:
        """Number of state keys that the event wrote."""
        return max(len(self.changes), len(object_field(self._action_fields, "stateDelta")))

    @property
    def hidden_changes(self) -> int:
        """Number of changes that are not shown."""
        return self.changes_count - len(self.changes)

    @property
    def actions_count(self) -> int:
        """Number of actions besides state writes."""
        return len(self.actions) + len(self.saved_versions) + bool(self.compaction)

    @property
    def is_answer(self) -> bool:
        """Tell whether `elapsed` is measured from the call instead of the previous event."""
        return not self.item.summary["calls"] and any(self.partners)

    @property
    def elapsed_seconds(self) -> float | None:
        """Seconds since the call, or since the previous event of the invocation."""
        if self.is_answer:
            return max(partner.seconds for partner in self.partners if partner)
        return self.item.elapsed

    @property
    def error_message(self) -> str:
        """The full error message."""
        return str(self.body.get("errorMessage") or "")

    @property
    def _action_fields(self) -> dict[str, Any]:
        return object_field(self.body, "actions")


def inspect_event(
    session: AgentSession, event: Event, *, more: bool = False, shown: Timeline | None = None
) -> Inspection:
    """Return an event in full, with a limited number of changes (`more`: a higher limit).

    Queries: those of a timeline of one event, unless `shown` is given; where needed one for the event's body, one for
    partners, one for changes and one for the target of a rewind.

    Args:
        session: the session.
        event: the event.
        more: a higher limit of changes.
        shown: a timeline of the session, which may show the event.
    """
    body = json.loads(event.data)
    group = _find_group(shown, event) if shown else None
    pairs = shown.pairs if shown and group else _pair_near(session, event)
    group = group or _read_group(session, event)
    item = next(item for item in group.items if item.event.seq == event.seq)
    action_fields = body.get("actions") or {}
    max_changes = MAX_CHANGES if more else CHANGES_SHOWN
    changes_by_seq = (
        read_key_changes(session, [event], length=VALUE_LIMIT, max_each=max_changes + 1)
        if item.changes
        else {}
    )
    changes = changes_by_seq.get(event.seq, [])
    return Inspection(
        item=item,
        body=body,
        parts=[*content_parts.parse_parts(body.get("content")), *_partial_answer_parts(body)],
        partners=_find_partners(event, pairs),
        changes=[ShownChange(change, _change_lines(change)) for change in changes[:max_changes]],
        offers_more=not more and len(changes) > max_changes,
        details=event_details.parse_details(body),
        totals=group.totals,
        compaction=event_actions.parse_compaction(action_fields),
        rewinds_to=_first_seq(session, event, event_actions.rewound_invocation(action_fields)),
    )


def _find_group(timeline: Timeline, event: Event) -> InvocationGroup | None:
    """Return the group of a timeline that shows an event."""
    groups = (group for group in timeline.groups for item in group.items if item.event.seq == event.seq)
    return next(groups, None)


def _pair_near(session: AgentSession, event: Event) -> PairedCalls:
    """Pair the calls and results of an event with those near it. At most one query."""
    if event.decoded_summary["calls"]:
        return pair_events([event, *windows.tool_events_near(session, after=event.seq)])
    if event.decoded_summary["results"]:
        return pair_events([*reversed(windows.tool_events_near(session, before=event.seq)), event])
    return PairedCalls()


def _read_group(session: AgentSession, event: Event) -> InvocationGroup:
    [group] = read_timeline(session, windows.EventWindow([event], session.last_seq), titles=False).groups
    return group


def _partial_answer_parts(body: dict[str, Any]) -> Iterator[content_parts.Part]:
    """Yield the parts of answers that a cancellation interrupted."""
    for number, answer in enumerate(events.partial_answers(body)):
        yield from content_parts.parse_parts(answer, f"/customMetadata/{events.PARTIAL_ANSWER}/{number}")


def _change_lines(change: KeyChange) -> list[DiffLine]:
    if change.old is None or change.new is None or value_diff.is_brief(change.old, change.new):
        return []
    if max(len(change.old), len(change.new)) < VALUE_LIMIT:
        return value_diff.diff_lines(change.old, change.new)
    return value_diff.diff_beginnings(change.old, change.new)


def _find_partners(event: Event, pairs: PairedCalls) -> list[Partner | None]:
    """Return the answer to each call of an event, or the call of each of its results."""
    others: list[Event | None] = []
    if event.decoded_summary["calls"]:
        others = [answers[0] if answers else None for answers in pairs.answering_events(event)]
    elif event.decoded_summary["results"]:
        others = [call.event if call else None for call in pairs.calls[event.seq]]
    return [Partner(other.seq, abs(other.timestamp - event.timestamp)) if other else None for other in others]


def _first_seq(session: AgentSession, event: Event, invocation_id: str) -> int:
    if not invocation_id:
        return 0
    earlier = Event.objects.filter(session=session, invocation_id=invocation_id, seq__lt=event.seq)
    return earlier.order_by("seq").values_list("seq", flat=True).first() or 0
