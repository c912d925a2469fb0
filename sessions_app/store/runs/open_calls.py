"""Long-running calls that wait for a person's answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from django.db.models import Q

from sessions_app.store.events.call_pairing import CallPairing
from sessions_app.store.events.conditions import HAS_RESULTS, MAY_NAME_TOOLS
from sessions_app.store.events.superseded_events import SupersededRanges
from sessions_app.store.models import AgentSession, Event

WAITING_IN_SUMMARY = '"waiting":true'
"""Text that only stored summaries of events with long-running calls contain."""

EVENTS_SCANNED = 2000


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A long-running call without a final answer: the `place`th call of its event, from 0.

    Attributes:
        nth: it is closed by so many answers to its id after its event, those given included.
    """

    seq: int
    invocation_id: str
    place: int
    call_id: str
    nth: int = 1


def find_open_calls(session: AgentSession | int, first_seq: int, ranges: SupersededRanges) -> list[OpenCall]:
    """Return the open calls of events from `first_seq` on, in order. One query.

    A call is open until the user sends a final response to it, or a later event asks with its id: as in ADK
    (`google/adk/events/_interrupts.py`), an answer belongs to the newest event that asks. Responses of the tool itself
    do not close it. Rewound events do not count.
    """
    asks, answers = Q(summary__contains=WAITING_IN_SUMMARY), HAS_RESULTS & Q(author="user")
    rows = Event.objects.filter(MAY_NAME_TOOLS, asks | answers, session=session, seq__gte=first_seq)
    rows = rows.only("seq", "invocation_id", "author", "summary").order_by("seq")[:EVENTS_SCANNED]
    pairing, given = CallPairing[OpenCall](), Counter[tuple[int, str]]()
    for event in (row for row in rows if not ranges.rewound_by(row)):
        summary = event.decoded_summary
        for result in summary.get("results", ()) if event.author == "user" else ():
            if not result.get("interim") and (call := pairing.take(result)):
                given[call.seq, call.call_id] += 1
        pairing.add_event(
            (asked, OpenCall(event.seq, event.invocation_id, index, asked["id"]))
            for index, asked in enumerate(summary.get("calls", ()))
            if asked["waiting"]
        )
    calls = []
    for call in sorted(pairing.unanswered(), key=lambda call: (call.seq, call.place)):
        given[call.seq, call.call_id] += 1
        calls.append(replace(call, nth=given[call.seq, call.call_id]))
    return calls
