"""Reads a window of a session for display, with a number of queries that does not depend on its length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sessions_app.console.questions import open_questions
from sessions_app.problems.problem_queries import problems_by_invocation
from sessions_app.sessions.judgements import parse_judgements, window_judgement_rows
from sessions_app.state.key_changes import read_key_changes
from sessions_app.store.database.combined_query import read_together
from sessions_app.store.events.call_pairing import PairedCalls, pair_events
from sessions_app.store.events.superseded_events import (
    CompactedSpan,
    SupersededRanges,
    find_compacted_range,
    superseded_ranges,
    superseding_rows,
)
from sessions_app.store.models import AgentSession, Event, EventJudgement, Run
from sessions_app.store.sessions.lineage import list_forks_at
from sessions_app.store.traces.log_records import count_by_event
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.costs import event_costs
from sessions_app.timeline.event_window import EventWindow, InvocationTotals
from sessions_app.timeline.groups import InvocationGroup, fold_rows, group_items
from sessions_app.timeline.items import MAX_CHANGES
from sessions_app.timeline.nested_runs import read_nested_runs
from sessions_app.timeline.run_marks import (
    UNSUCCESSFUL,
    RunMark,
    find_position,
    interrupted_invocations,
    needs_mark,
    read_window_runs,
)
from sessions_app.timeline.turn_titles import message_rows, name_turns
from sessions_app.timeline.window_items import WindowNotes, build_items

BROKEN = (Run.Status.FAILED, Run.Status.CRASHED)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A window of events as a timeline shows it.

    Attributes:
        window: the window.
        groups: its groups.
        ahead: runs without events that ended before any event.
        pairs: the calls and results of its events.
        error_seqs: seqs of the newest errors of the session, newest first, if they were asked for.
    """

    window: EventWindow
    groups: list[InvocationGroup]
    ahead: list[RunMark] = field(default_factory=list)
    pairs: PairedCalls = field(default_factory=PairedCalls)
    error_seqs: list[int] = field(default_factory=list)


def read_timeline(
    session: AgentSession,
    window: EventWindow,
    *,
    folds: bool = False,
    titles: bool = True,
    errors: bool = False,
) -> Timeline:
    """Return the timeline of a window.

    Queries: runs; marks, titles, errors and judgements (and one per rewind); changes, totals, forks, log records,
    problems; where needed nested runs, answers and bodies of waiting calls, events around the window, two for a
    compaction.

    Args:
        session: the session.
        window: the window.
        folds: fold less interesting rows.
        titles: name the turns.
        errors: return the errors of the whole session, too.
    """
    events = window.events
    runs = read_window_runs(session, events)
    nothing = Event.objects.none().values_list("seq", "data")
    superseding, messages, error_rows, judged = read_together(
        superseding_rows(session, events[0].seq) if events else nothing,
        message_rows(session, events[-1].seq) if events and titles else nothing,
        windows.error_rows(session) if errors else nothing,
        window_judgement_rows(session, events) if events else nothing,
    )
    error_seqs = sorted((seq for seq, _ in error_rows), reverse=True)
    if not events:
        return Timeline(window, [], _place_runs([], runs), error_seqs=error_seqs)
    totals = windows.sum_invocations(session, events, runs)
    earlier, pairs = _read_around(session, window, totals.values())
    marks, judgements = superseded_ranges(session, superseding), parse_judgements(session, judged)
    notes = _read_notes(session, window, runs, totals, marks, pairs, judgements)
    groups = group_items(build_items(events, notes, earlier.get(events[0].seq - 1)), totals)
    if titles:
        first_events = {**earlier, **{event.seq: event for event in events}}
        name_turns(groups, first_events, sorted(seq for seq, _ in messages))
    if folds:
        for group in groups:
            group.rows = fold_rows(group.rows)
    problems = problems_by_invocation(session, totals.keys())
    for group in reversed(groups):
        group.problems = problems.pop(group.invocation_id, ())
    return Timeline(window, groups, _place_runs(groups, runs), pairs, error_seqs)


def _read_notes(
    session: AgentSession,
    window: EventWindow,
    runs: list[Run],
    totals: dict[str, InvocationTotals],
    marks: SupersededRanges,
    pairs: PairedCalls,
    judgements: dict[int, EventJudgement],
) -> WindowNotes:
    """Return what else is shown at the events of a window."""
    events = window.events
    return WindowNotes(
        changes=read_key_changes(session, events, max_each=MAX_CHANGES + 1),
        marks=marks,
        questions=open_questions(session, events, marks),
        totals=totals,
        broken_runs=[run for run in runs if run.status in BROKEN and run.invocation_id],
        forks=list_forks_at(session, events),
        taken_over=session.forked_seq or 0,
        pairs=pairs,
        covers=_compacted_seqs(session, events),
        nested_runs=read_nested_runs(session, events),
        log_counts=count_by_event(session, events),
        costs=event_costs(events),
        senders={find_position(run) + 1: run.person for run in runs if run.person},
        judgements=judgements,
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
    group.runs = [
        RunMark(run, error_seqs.get(run.pk, 0), is_paused=run.is_paused)  # type: ignore[attr-defined]  # annotated, too
        for run in marked_runs
    ]
    group.first_runs = list({run.code_version: run for run in reversed(runs) if run.code_version}.values())[
        ::-1
    ]


def _mark_without_events(run: Run) -> RunMark:
    return RunMark.alone(run, run.request_message)  # type: ignore[attr-defined]  # annotated by `read_window_runs`


def _read_around(
    session: AgentSession, window: EventWindow, totals: Iterable[InvocationTotals]
) -> tuple[dict[int, Event], PairedCalls]:
    """Return events before a window, by seq, and the calls and results of the window, paired also with those around it.

    The events are the one before the window and the first ones of its invocations that began before it. No query if
    there are none, and all calls and results are paired inside the window. A single event is paired with none: it is
    shown alone, or was just added to a page with its call.
    """
    events, first_seq = window.events, window.events[0].seq
    seqs = {first_seq - 1, *(total.first_seq for total in totals)} - {0, *(event.seq for event in events)}
    pairs = pair_events(events)
    reads = [windows.event_rows(session).filter(seq__in=seqs)] if seqs else []
    lacks_calls = len(events) > 1 and first_seq > 1 and any(None in calls for calls in pairs.calls.values())
    if lacks_calls:
        reads.append(windows.tool_events_near(session, before=first_seq))
    lacks_answers = len(events) > 1 and window.has_newer and not all(pairs.answers.values())
    if lacks_answers:
        reads.append(windows.tool_events_near(session, after=window.last_shown))
    around = windows.read_events(*reads)
    if lacks_calls or lacks_answers:
        earlier = [event for event in around if event.seq < first_seq] if lacks_calls else []
        pairs = pair_events([*earlier, *events, *(event for event in around if event.seq > first_seq)])
    return {event.seq: event for event in around if event.seq in seqs}, pairs


def _compacted_seqs(session: AgentSession, events: Sequence[Event]) -> dict[int, tuple[int, int]]:
    seqs_by_event = {}
    for event in events:
        span = event.decoded_summary["compaction"]
        if isinstance(span, dict) and (
            seqs := find_compacted_range(session, CompactedSpan(event.seq, span["start"], span["end"]))
        ):
            seqs_by_event[event.seq] = seqs
    return seqs_by_event
