"""Reads a window of a session for display, with a number of queries that does not depend on its length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sessions_app.console.questions import open_questions
from sessions_app.problems.problem_queries import problems_by_invocation
from sessions_app.state.key_changes import read_key_changes
from sessions_app.store.events.call_pairing import PairedCalls, pair_events
from sessions_app.store.events.superseded_events import (
    CompactedSpan,
    find_compacted_range,
    find_superseded_ranges,
)
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.store.sessions.lineage import forks_at
from sessions_app.store.traces.log_records import count_by_event
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.costs import event_costs
from sessions_app.timeline.event_window import EventWindow, InvocationTotals
from sessions_app.timeline.groups import InvocationGroup, fold_rows, group_items
from sessions_app.timeline.items import MAX_CHANGES, WindowNotes, build_items
from sessions_app.timeline.nested_runs import read_nested_runs
from sessions_app.timeline.run_marks import (
    UNSUCCESSFUL,
    RunMark,
    find_position,
    interrupted_invocations,
    needs_mark,
    read_window_runs,
)
from sessions_app.timeline.turn_titles import name_turns

BROKEN = (Run.Status.FAILED, Run.Status.CRASHED)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A window and its groups. `ahead` are runs without events that ended before any event."""

    window: EventWindow
    groups: list[InvocationGroup]
    ahead: list[RunMark] = field(default_factory=list)


def read_timeline(
    session: AgentSession,
    window: EventWindow,
    *,
    folds: bool = False,
    titles: bool = True,
) -> Timeline:
    """Return the timeline of a window. `folds`: fold less interesting rows; `titles`: name the turns.

    Queries: runs; changes, ghost keys, marks (and one per rewind), totals, forks, log records, titles, problems; where
    needed nested runs, answers and bodies of waiting calls, events before the window, calls before and answers after
    it, two for a compaction.
    """
    events = window.events
    runs = read_window_runs(session, events)
    if not events:
        return Timeline(window, [], _place_runs([], runs))
    totals = windows.sum_invocations(session, events, runs)
    notes = _read_notes(session, window, runs, totals)
    earlier = _earlier_events(session, events, totals.values())
    groups = group_items(build_items(events, notes, earlier.get(events[0].seq - 1)), totals)
    if titles:
        name_turns(session, groups, {**earlier, **{event.seq: event for event in events}})
    if folds:
        for group in groups:
            group.rows = fold_rows(group.rows)
    problems = problems_by_invocation(session, totals.keys())
    for group in reversed(groups):
        group.problems = problems.pop(group.invocation_id, ())
    return Timeline(window, groups, _place_runs(groups, runs))


def _read_notes(
    session: AgentSession, window: EventWindow, runs: list[Run], totals: dict[str, InvocationTotals]
) -> WindowNotes:
    """Return what else is shown at the events of a window."""
    events = window.events
    marks = find_superseded_ranges(session, events[0].seq)
    return WindowNotes(
        changes=read_key_changes(session, events, max_each=MAX_CHANGES + 1),
        marks=marks,
        questions=open_questions(session, events, marks),
        totals=totals,
        broken_runs=[run for run in runs if run.status in BROKEN and run.invocation_id],
        forks=forks_at(session, events),
        taken_over=session.forked_seq or 0,
        pairs=_pair_calls(session, window),
        covers=_compacted_seqs(session, events),
        nested_runs=read_nested_runs(session, events),
        log_counts=count_by_event(session, events),
        costs=event_costs(events),
        senders={find_position(run) + 1: run.person for run in runs if run.person},
    )


def _place_runs(groups: list[InvocationGroup], runs: list[Run]) -> list[RunMark]:
    """Add runs to the groups of their invocation or time. Return those without events that ended before all groups."""
    for group in groups:
        group_runs = [run for run in runs if run.invocation_id and run.invocation_id == group.invocation_id]
        _add_runs(group, group_runs)
    ahead: list[RunMark] = []
    for run in runs:
        if not run.invocation_id and run.status in UNSUCCESSFUL:
            holders = [group for group in groups if group.items[0].event.seq <= find_position(run)]
            (holders[-1].behind if holders else ahead).append(_mark_without_events(run))
    return ahead


def _add_runs(group: InvocationGroup, runs: list[Run]) -> None:
    """Add an invocation's runs to its group. An error that one of its events shows is not repeated.

    If the invocation was interrupted and resumed, all its runs are listed in order.
    """
    is_asking = any(item.questions for item in group.items)
    error_seqs = {item.run.pk: item.event.seq for item in group.items if item.run}
    if interrupted_invocations(runs):
        marked_runs = [run for run in runs if run.status != Run.Status.QUEUED]
    else:
        marked_runs = [run for run in runs if needs_mark(run, is_asking=is_asking and run is runs[-1])]
    group.runs = [RunMark(run, error_seqs.get(run.pk, 0)) for run in marked_runs]
    group.first_runs = list({run.code_version: run for run in reversed(runs) if run.code_version}.values())[
        ::-1
    ]


def _mark_without_events(run: Run) -> RunMark:
    return RunMark.alone(run, run.request_message)  # type: ignore[attr-defined]  # annotated by `read_window_runs`


def _earlier_events(
    session: AgentSession, events: Sequence[Event], totals: Iterable[InvocationTotals]
) -> dict[int, Event]:
    """Return by seq the event before a window and the first ones of its invocations that began before it."""
    seqs = {events[0].seq - 1, *(total.first_seq for total in totals)} - {0, *(event.seq for event in events)}
    return {event.seq: event for event in windows.event_rows(session).filter(seq__in=seqs)} if seqs else {}


def _pair_calls(session: AgentSession, window: EventWindow) -> PairedCalls:
    """Pair the calls and results of a window, also with those around it. No query if all are paired inside it.

    A single event is paired with none: it is shown alone, or was just added to a page with its call.
    """
    events = window.events
    pairs = pair_events(events)
    if len(events) == 1:
        return pairs
    earlier: Iterable[Event] = ()
    later: Iterable[Event] = ()
    if events[0].seq > 1 and any(None in calls for calls in pairs.calls.values()):
        earlier = windows.tool_events_near(session, before=events[0].seq)
    if window.has_newer and not all(pairs.answers.values()):
        later = windows.tool_events_near(session, after=window.last_shown)
    return pair_events([*earlier, *events, *later]) if earlier or later else pairs


def _compacted_seqs(session: AgentSession, events: Sequence[Event]) -> dict[int, tuple[int, int]]:
    seqs_by_event = {}
    for event in events:
        span = event.decoded_summary["compaction"]
        if isinstance(span, dict) and (
            seqs := find_compacted_range(session, CompactedSpan(event.seq, span["start"], span["end"]))
        ):
            seqs_by_event[event.seq] = seqs
    return seqs_by_event
