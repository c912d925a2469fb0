"""A window of a session, read and ready to be shown. The number of queries does not depend on its length."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sessions_app.lineage import forks_at
from sessions_app.models import AgentSession, Event, Run
from sessions_app.timeline import window as windows
from sessions_app.timeline.changes import changes_of
from sessions_app.timeline.items import Group, Notes, groups, items
from sessions_app.timeline.marks import marks_from
from sessions_app.timeline.questions import open_questions
from sessions_app.timeline.runs import RunMark, is_told, place_of, runs_in
from sessions_app.timeline.window import Window

BROKEN = (Run.Status.FAILED, Run.Status.CRASHED)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A window and its groups. `ahead` are runs that ended before any event, without one of their own."""

    window: Window
    groups: list[Group]
    ahead: list[RunMark] = field(default_factory=list)


def read(session: AgentSession, window: Window) -> Timeline:
    """Return what to show of a window.

    Queries: runs; then changes, ghosts, marks (and a seek a rewind), totals, forks; where needed answers and bodies of
    waiting calls, and the event before the window.
    """
    events = window.events
    runs = runs_in(session, events)
    alone = [run for run in runs if not run.invocation_id]
    if not events:
        return Timeline(window, [], [_alone(run) for run in alone])
    totals = windows.totals(session, events)
    notes = Notes(
        changes=changes_of(session, events),
        marks=marks_from(session, events[0].seq),
        questions=open_questions(session, events),
        totals=totals,
        broken_runs={run.invocation_id: run for run in runs if run.status in BROKEN and run.invocation_id},
        forks=forks_at(session, events),
        taken_over=session.forked_seq or 0,
    )
    found = groups(items(events, notes, _event_before(session, events[0])), totals)
    ahead = [_alone(run) for run in alone if place_of(run) < events[0].seq]
    return Timeline(window, _with_alone([_with_runs(group, runs) for group in found], alone), ahead)


def _with_runs(group: Group, runs: list[Run]) -> Group:
    """Note how the runs of a group went. A traceback that an event of it shows is not shown twice."""
    own = [run for run in runs if run.invocation_id and run.invocation_id == group.invocation_id]
    if not own:
        return group
    is_asking = any(item.questions for item in group.items)
    shown = {item.run.pk for item in group.items if item.run}
    told = [run for run in own if is_told(run, is_asking=is_asking and run is own[-1])]
    return replace(group, runs=[RunMark(run, run.pk not in shown) for run in told])


def _with_alone(found: list[Group], alone: list[Run]) -> list[Group]:
    """Put runs without events behind the group that holds the event they stand behind."""
    for run in alone:
        holders = [group for group in found if group.items[0].event.seq <= place_of(run)]
        if holders:
            holders[-1].behind.append(_alone(run))
    return found


def _alone(run: Run) -> RunMark:
    return RunMark.alone(run, run.asked)  # type: ignore[attr-defined]  # annotated by `runs_in`


def _event_before(session: AgentSession, event: Event) -> Event | None:
    if event.seq <= 1:
        return None
    return windows.rows_of(session).filter(seq=event.seq - 1).first()
