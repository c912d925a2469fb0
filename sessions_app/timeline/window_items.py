"""Items of a window of events, built from the events and from query results about them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sessions_app.console.questions import Question
from sessions_app.presentation.message_html import uploaded_filenames
from sessions_app.prices.costs import Cost
from sessions_app.state.key_changes import KeyChange
from sessions_app.store.events.call_pairing import PairedCalls, PlacedCall
from sessions_app.store.events.conditions import is_error
from sessions_app.store.events.summary import shorten
from sessions_app.store.events.superseded_events import SupersededRanges
from sessions_app.store.models import Event, EventJudgement, Run
from sessions_app.store.sessions.lineage import Forks
from sessions_app.store.traces.log_records import LogCount
from sessions_app.timeline.event_window import InvocationTotals
from sessions_app.timeline.items import EarlierCall, TimelineItem, first_args, shown_args
from sessions_app.timeline.nested_runs import HeadsByCall

IDLE_S = 600.0
"""Idle seconds that the timeline marks."""


@dataclass(frozen=True, slots=True)
class WindowNotes:
    """Query results about the events of a window, by `seq` or invocation.

    Attributes:
        changes, questions, forks, covers, nested_runs, log_counts, costs, senders, judgements: by seq of their event.
        marks: ranges of events that a rewind or a compaction supersedes.
        totals: by invocation.
        broken_runs: runs that ended with an error.
        taken_over: seq of the last event that a fork has copied; 0 for other sessions.
        pairs: calls and the results that answer them.
    """

    changes: dict[int, list[KeyChange]]
    marks: SupersededRanges
    questions: dict[int, list[Question]]
    totals: dict[str, InvocationTotals]
    broken_runs: list[Run]
    forks: dict[int, Forks] = field(default_factory=dict)
    taken_over: int = 0
    pairs: PairedCalls = field(default_factory=PairedCalls)
    covers: dict[int, tuple[int, int]] = field(default_factory=dict)
    nested_runs: Mapping[int, HeadsByCall] = field(default_factory=dict)
    log_counts: Mapping[int, LogCount] = field(default_factory=dict)
    costs: Mapping[int, Cost | None] = field(default_factory=dict)
    senders: Mapping[int, str] = field(default_factory=dict)
    judgements: Mapping[int, EventJudgement] = field(default_factory=dict)


def _run_broken_at(event: Event, runs: Sequence[Run]) -> Run | None:
    """Return the run that ended with an error event. An invocation can have several runs."""
    if not is_error(event):
        return None
    invocation_runs = [run for run in runs if run.invocation_id == event.invocation_id]
    during = (run for run in invocation_runs if run.last_seq is None or event.seq <= run.last_seq)
    return next(during, invocation_runs[-1] if invocation_runs else None)


def build_items(
    events: Sequence[Event], notes: WindowNotes, before: Event | None = None
) -> list[TimelineItem]:
    """Return the items of events. `before` is the event before the first one."""
    items: list[TimelineItem] = []
    uploads = _uploads_by_seq(events)
    previous = before
    for event in events:
        if previous is not None and previous.seq != event.seq - 1:
            previous = None  # the window shows hits only: the previous event is missing
        rewound_by = notes.marks.rewound_by(event)
        if rewound_by == event.seq:
            rewound_by = 0  # a rewind takes back what precedes it
        item = TimelineItem(
            event=event,
            changes=notes.changes.get(event.seq, []),
            elapsed=elapsed_seconds(event, previous, notes.pairs),
            rewound_by=rewound_by,
            compacted_by=notes.marks.compacted_by(event),
            questions=[] if rewound_by else notes.questions.get(event.seq, []),
            run=_run_broken_at(event, notes.broken_runs),
            forks=notes.forks.get(event.seq),
            ends_fork=event.seq == notes.taken_over,
            before=previous,
            gap=_idle_gap(event, previous),
            earlier_calls=[_earlier_call(call) for call in notes.pairs.answered_calls(event.seq)],
            answered_in=sorted(_later_answers(event, notes.pairs, events[-1].seq)),
            covers=notes.covers.get(event.seq),
            takes_back=notes.marks.taken_back_by(event.seq),
            person=event.decoded_summary["person"] or notes.senders.get(event.seq, ""),
            nested_runs=notes.nested_runs.get(event.seq, {}),
            log=notes.log_counts.get(event.seq),
            cost=notes.costs.get(event.seq),
            uploads=uploads.get(event.seq, {}),
            judgement=notes.judgements.get(event.seq),
        )
        items.append(item)
        previous = event
    return items


def _uploads_by_seq(events: Sequence[Event]) -> dict[int, dict[str, int | None]]:
    """Return the versions of the uploaded files that messages of the user name, by seq.

    ADK saves a file before the message is stored and names its version in a later event of the invocation.
    """
    uploads: dict[int, dict[str, int | None]] = {}
    versions: dict[tuple[str, str], int] = {}
    for event in reversed(events):
        summary = event.decoded_summary
        for name, version in summary.get("artifacts", {}).items():
            versions[event.invocation_id, name] = version
        if event.author == "user":
            names = uploaded_filenames(summary.get("text", ""))
            uploads[event.seq] = {name: versions.get((event.invocation_id, shorten(name))) for name in names}
    return uploads


def _earlier_call(call: PlacedCall) -> EarlierCall:
    args = first_args(shown_args(call.summary))["args"]
    return EarlierCall(call.event.seq, call.summary["name"], args)


def _later_answers(event: Event, pairs: PairedCalls, last_seq: int) -> set[int]:
    """Return the seqs after `last_seq` of the first answers to an event's calls."""
    firsts = [answers[0].seq for answers in pairs.answering_events(event) if answers]
    return {seq for seq in firsts if seq > last_seq}


def _idle_gap(event: Event, before: Event | None) -> float:
    silence = event.timestamp - before.timestamp if before else 0.0
    return silence if silence >= IDLE_S else 0.0


def elapsed_seconds(event: Event, previous: Event | None, pairs: PairedCalls) -> float | None:
    """Return the seconds since the calls that an event answers, else since the previous event of its invocation."""
    if calls := pairs.answered_calls(event.seq):
        return max(0.0, event.timestamp - min(call.event.timestamp for call in calls))
    if previous is None or previous.invocation_id != event.invocation_id:
        return None
    return max(0.0, event.timestamp - previous.timestamp)
