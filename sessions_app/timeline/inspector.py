"""One event in full: its parts, its delta, what it does, what it says of itself, and the JSON that is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sessions_app import events
from sessions_app.models import AgentSession, Event, EventKind
from sessions_app.presentation import value_diff
from sessions_app.presentation.value_diff import DiffLine
from sessions_app.timeline import content_parts, event_actions, event_details
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.content_parts import Part
from sessions_app.timeline.event_actions import Action, Compaction
from sessions_app.timeline.event_details import EventDetails
from sessions_app.timeline.event_fields import object_field
from sessions_app.timeline.event_window import InvocationTotals
from sessions_app.timeline.items import TimelineItem
from sessions_app.timeline.key_changes import KeyChange, changes_of
from sessions_app.timeline.timeline_reader import read_timeline

VALUE_LIMIT = 20_000
"""Characters of an old or a new value in the delta; the whole value stands in the history of its key."""

CHANGES_SHOWN = 40
"""Keys of an event in the delta before somebody asks for more."""

MAX_CHANGES = 200
"""Keys in the delta for somebody who asks for more; all of them stand in its JSON."""

PARTNERS_SCANNED = 50
"""Tool events before or after an event among which its calls or results are looked for."""


@dataclass(frozen=True, slots=True)
class Partner:
    """The event that answers a call, or that made the call which is answered; `seconds` lie between them."""

    seq: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A key that the event wrote; `lines` compare old and new when they do not fit on one line."""

    change: KeyChange
    lines: list[DiffLine]


@dataclass(frozen=True, slots=True)
class SavedArtifact:
    """A version of an artifact that the event saved."""

    name: str
    version: Any


@dataclass(frozen=True, slots=True)
class Inspection:
    """An event as the inspector shows it.

    Attributes:
        item: the event as its timeline row has it.
        body: its wire form.
        partners: by call id, the events that answer its calls or made the calls that it answers.
        offers_more: more of its changes can be asked for.
        totals: its invocation as a whole.
        compaction: the summary that it carries; `item.covers` has the events it stands for.
        rewinds_to: seq of the first event that a rewind takes back; 0: it takes none back.
    """

    item: TimelineItem
    body: dict[str, Any]
    parts: list[Part]
    partners: dict[str, Partner]
    changes: list[ShownChange]
    offers_more: bool
    details: EventDetails
    totals: InvocationTotals | None
    compaction: Compaction | None
    rewinds_to: int

    @property
    def event(self) -> Event:
        """The row."""
        return self.item.event

    @property
    def placed_parts(self) -> list[tuple[Part, Partner | None]]:
        """The parts, each with the event that answers it or that it answers."""
        return [(part, self.partners.get(events.shorten(part.call_id))) for part in self.parts]

    @property
    def actions(self) -> list[Action]:
        """What the event does, in words."""
        return event_actions.actions_of(self._actions)

    @property
    def saved(self) -> list[SavedArtifact]:
        """The artifacts that the event saved."""
        return [
            SavedArtifact(name, version)
            for name, version in object_field(self._actions, "artifactDelta").items()
        ]

    @property
    def changes_count(self) -> int:
        """How many keys of state the event wrote, shown or not."""
        return max(len(self.changes), len(object_field(self._actions, "stateDelta")))

    @property
    def hidden_changes(self) -> int:
        """How many of them are not shown."""
        return self.changes_count - len(self.changes)

    @property
    def actions_count(self) -> int:
        """How many things the event does besides writing state."""
        return len(self.actions) + len(self.saved) + bool(self.compaction)

    @property
    def is_answer(self) -> bool:
        """Tell whether `elapsed` counts from the call and not from the event before."""
        return bool(self.item.answer_ids and self.partners)

    @property
    def elapsed(self) -> float | None:
        """Seconds since its call, or since the event before it in its invocation."""
        if self.is_answer:
            return max(partner.seconds for partner in self.partners.values())
        return self.item.elapsed

    @property
    def error_message(self) -> str:
        """The whole message of the error, however long."""
        return str(self.body.get("errorMessage") or "")

    @property
    def _actions(self) -> dict[str, Any]:
        return object_field(self.body, "actions")


def inspect_event(session: AgentSession, event: Event, *, more: bool = False) -> Inspection:
    """Return an event in full; of the keys it wrote some, or `more`. `event` has its `data` loaded.

    Queries: those of a timeline of one event, and where needed one for the partners of its calls or results, and
    one for where its rewind goes back to.
    """
    body = json.loads(event.data)
    [group] = read_timeline(session, windows.EventWindow([event], session.last_seq)).groups
    [item] = group.items
    said = body.get("actions") or {}
    most = MAX_CHANGES if more else CHANGES_SHOWN
    written = changes_of(session, [event], length=VALUE_LIMIT, each=most + 1).get(event.seq, [])
    return Inspection(
        item=item,
        body=body,
        parts=[*content_parts.parts_of(body.get("content")), *_partial_answer_parts(body)],
        partners=_partners(session, item),
        changes=[ShownChange(change, _lines(change)) for change in written[:most]],
        offers_more=not more and len(written) > most,
        details=event_details.details_of(body),
        totals=group.totals,
        compaction=event_actions.compaction_of(said),
        rewinds_to=_first_seq(session, event, event_actions.rewound_invocation(said)),
    )


def _partial_answer_parts(body: dict[str, Any]) -> Iterator[content_parts.Part]:
    """Yield what was streamed of answers that a cancel broke off."""
    for number, answer in enumerate(events.partial_answers(body)):
        yield from content_parts.parts_of(answer, f"/customMetadata/{events.PARTIAL_ANSWER}/{number}")


def _lines(change: KeyChange) -> list[DiffLine]:
    if change.old is None or change.new is None or value_diff.is_brief(change.old, change.new):
        return []
    if max(len(change.old), len(change.new)) < VALUE_LIMIT:
        return value_diff.diff_lines(change.old, change.new)
    return value_diff.diff_beginnings(change.old, change.new)


def _partners(session: AgentSession, item: TimelineItem) -> dict[str, Partner]:
    wanted = set(item.call_ids or item.answer_ids)
    if not wanted:
        return {}
    seq, rows = item.event.seq, windows.event_rows(session)
    if item.call_ids:
        near = rows.filter(kind=EventKind.TOOL_RESULT, seq__gt=seq).order_by("seq")[:PARTNERS_SCANNED]
    else:
        near = rows.filter(kind=EventKind.TOOL_CALL, seq__lt=seq).order_by("-seq")[:PARTNERS_SCANNED]
    found: dict[str, Partner] = {}
    for event in near:
        for call_id in wanted.intersection(_ids_of(event, "results" if item.call_ids else "calls")):
            seconds = abs(event.timestamp - item.event.timestamp)
            found.setdefault(call_id, Partner(event.seq, seconds))
    return found


def _ids_of(event: Event, which: str) -> Iterable[str]:
    return (each["id"] for each in json.loads(event.summary).get(which, []))


def _first_seq(session: AgentSession, event: Event, invocation_id: str) -> int:
    if not invocation_id:
        return 0
    earlier = Event.objects.filter(session=session, invocation_id=invocation_id, seq__lt=event.seq)
    return earlier.order_by("seq").values_list("seq", flat=True).first() or 0
