"""Reads a window of a session for display, with a number of queries that does not depend on its length."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sessions_app.events.conditions import HAS_CALLS, HAS_RESULTS
from sessions_app.events.superseded_events import CompactedSpan, find_compacted_range, find_superseded_ranges
from sessions_app.models import AgentSession, Event, Run
from sessions_app.runs.questions import open_questions
from sessions_app.sessions.lineage import forks_at
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.event_window import EventWindow
from sessions_app.timeline.groups import InvocationGroup, group_items
from sessions_app.timeline.items import MAX_CHANGES, AskedCall, WindowNotes, build_items, calls_of
from sessions_app.timeline.key_changes import changes_of
from sessions_app.timeline.run_marks import (
    RunMark,
    interrupted_invocations,
    needs_mark,
    position_of,
    read_window_runs,
)
from sessions_app.traces.lost_toolsets import LostToolsets, lost_toolsets

BROKEN = (Run.Status.FAILED, Run.Status.CRASHED)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A window and its groups. `ahead` are runs without events that ended before any event."""

    window: EventWindow
    groups: list[InvocationGroup]
    ahead: list[RunMark] = field(default_factory=list)


def read_timeline(session: AgentSession, window: EventWindow) -> Timeline:
    """Return the timeline of a window.

    Queries: runs; changes, ghost keys, marks (and one per rewind), totals, forks, lost toolsets; where needed answers
    and bodies of waiting calls, the event before the window, calls before and answers after it, two for a compaction.
    """
    events = window.events
    runs = read_window_runs(session, events)
    alone = [run for run in runs if not run.invocation_id]
    if not events:
        return Timeline(window, [], [_mark_without_events(run) for run in alone])
    totals = windows.sum_invocations(session, events, runs)
    notes = WindowNotes(
        changes=changes_of(session, events, each=MAX_CHANGES + 1),
        marks=find_superseded_ranges(session, events[0].seq),
        questions=open_questions(session, events),
        totals=totals,
        broken_runs=[run for run in runs if run.status in BROKEN and run.invocation_id],
        forks=forks_at(session, events),
        taken_over=session.forked_seq or 0,
        asked=_calls_before(session, events),
        answered=_answers_after(session, window),
        covers=_compacted_seqs(session, events),
    )
    toolsets = lost_toolsets(session, totals.keys())
    groups = group_items(build_items(events, notes, _event_before(session, events[0])), totals)
    ahead = [_mark_without_events(run) for run in alone if position_of(run) < events[0].seq]
    whole = [_with_lost_toolsets(_with_runs(group, runs), runs, toolsets) for group in groups]
    return Timeline(window, _with_runs_without_events(whole, alone), ahead)


def _with_runs(group: InvocationGroup, runs: list[Run]) -> InvocationGroup:
    """Return a group with its runs. An error that one of its events shows is not repeated.

    If the invocation was interrupted and resumed, all its runs are listed in order.
    """
    own = [run for run in runs if run.invocation_id and run.invocation_id == group.invocation_id]
    if not own:
        return group
    is_asking = any(item.questions for item in group.items)
    shown_runs = {item.run.pk for item in group.items if item.run}
    if interrupted_invocations(own):
        marked_runs = [run for run in own if run.status != Run.Status.QUEUED]
    else:
        marked_runs = [run for run in own if needs_mark(run, is_asking=is_asking and run is own[-1])]
    ran = {run.code_version: run for run in reversed(own) if run.code_version}
    return replace(
        group, runs=[RunMark(run, run.pk not in shown_runs) for run in marked_runs], ran=[*ran.values()][::-1]
    )


def _with_lost_toolsets(
    group: InvocationGroup, runs: list[Run], toolsets_by_invocation: LostToolsets
) -> InvocationGroup:
    toolsets = toolsets_by_invocation.get(group.invocation_id)
    if not toolsets:
        return group
    own = [run.pk for run in runs if run.invocation_id == group.invocation_id]
    return replace(group, lost_toolsets=toolsets, warned_run=own[-1] if own else "")


def _with_runs_without_events(groups: list[InvocationGroup], alone: list[Run]) -> list[InvocationGroup]:
    """Add runs without events to the group that they follow."""
    for run in alone:
        holders = [group for group in groups if group.items[0].event.seq <= position_of(run)]
        if holders:
            holders[-1].behind.append(_mark_without_events(run))
    return groups


def _mark_without_events(run: Run) -> RunMark:
    return RunMark.alone(run, run.asked)  # type: ignore[attr-defined]  # annotated by `runs_in`


def _event_before(session: AgentSession, event: Event) -> Event | None:
    if event.seq <= 1:
        return None
    return windows.event_rows(session).filter(seq=event.seq - 1).first()


def _calls_before(session: AgentSession, events: Sequence[Event]) -> dict[str, AskedCall]:
    """Return the calls before a window that are answered in it. No query if there are none.

    Skipped for a single event: it is shown alone, or was just added to a page with its call.
    """
    called: set[str] = set()
    missing: set[str] = set()
    for event in events:
        summary = json.loads(event.summary)
        missing |= _answer_ids(summary) - called
        called |= calls_of(event, summary).keys()
    calls_found: dict[str, AskedCall] = {}
    if not missing or events[0].seq <= 1 or len(events) == 1:
        return calls_found
    for event in windows.near_events(session, HAS_CALLS, before=events[0].seq):
        calls = calls_of(event, json.loads(event.summary))
        calls_found |= {
            name: call for name, call in calls.items() if name in missing and name not in calls_found
        }
        if calls_found.keys() >= missing:
            break
    return calls_found


def _answers_after(session: AgentSession, window: EventWindow) -> dict[str, int]:
    """Return the seqs of the events after a window that answer its calls. No query if there can be none."""
    open_calls: set[str] = set()
    for event in window.events:
        summary = json.loads(event.summary)
        open_calls = (open_calls | calls_of(event, summary).keys()) - _answer_ids(summary)
    answers: dict[str, int] = {}
    if not open_calls or not window.has_newer or len(window.events) == 1:
        return answers
    for event in windows.near_events(session, HAS_RESULTS, after=window.last_shown):
        for name in _answer_ids(json.loads(event.summary)) & open_calls:
            answers.setdefault(name, event.seq)
        if answers.keys() >= open_calls:
            break
    return answers


def _answer_ids(summary: Mapping[str, Any]) -> set[str]:
    return {result["id"] for result in summary.get("results", []) if result["id"]}


def _compacted_seqs(session: AgentSession, events: Sequence[Event]) -> dict[int, tuple[int, int]]:
    seqs_by_event = {}
    for event in events:
        span = json.loads(event.summary).get("compaction") if '"compaction"' in event.summary else None
        if isinstance(span, dict) and (
            seqs := find_compacted_range(session, CompactedSpan(event.seq, span["start"], span["end"]))
        ):
            seqs_by_event[event.seq] = seqs
    return seqs_by_event
