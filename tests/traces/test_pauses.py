"""Time spent waiting for answers or resumption does not count as working time."""

from __future__ import annotations

import json

import pytest

from sessions_app.api.traces import TraceOut
from sessions_app.store.models import Run, Span, Trace
from sessions_app.traces import waterfall
from sessions_app.traces.pauses import Pauses
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db

BEGUN = [["loaded", 100.0, "graph"], ["agent", 100.1, "graph"], ["end", 100.2, "graph"]]
ANSWERED = [["loaded", 856.2, "graph"], ["agent ended", 856.3, "graph"], ["end", 856.4, "graph"]]


def trace_of(story: Story, stages: list[list[object]]) -> Trace:
    return Trace.objects.create(
        session=story.session,
        invocation_id="i1",
        root_agent="graph",
        started_at=100.0,
        finished_at=856.4,
        stages=json.dumps(stages),
        own_status="done",
    )


def span(story: Story, name: str, start: float, end: float) -> None:
    Span.objects.create(
        session=story.session,
        invocation_id="i1",
        trace_id="t",
        span_id=name,
        name=name,
        kind=Span.Kind.INVOCATION,
        started_ns=round(start * 1e9),
        ended_ns=round(end * 1e9),
    )


def test_overlapping_pauses_are_excluded_from_durations():
    pauses = Pauses([(5, 10), (8, 12), (20, 20), (30, 29), (12, 13)])
    assert (pauses.between(0, 40), pauses.work(0, 40)) == (8, 32)
    assert (pauses.work(6, 9), pauses.work(9, 14), pauses.work(14, 13)) == (0, 1, 0)


def test_an_answered_invocation_took_as_long_as_was_worked_on_it(get):
    story = Story()
    trace = trace_of(story, [*BEGUN, *ANSWERED])
    assert waterfall.working_seconds(trace) == pytest.approx(0.4)
    row = get("/runs/").one("td", data_label="Duration").text
    assert "400 ms" in row
    assert TraceOut.model_validate(trace).working_seconds == pytest.approx(0.4)


def test_timeline_axis_leaves_out_pauses():
    story = Story()
    trace_of(story, [*BEGUN, *ANSWERED])
    span(story, "asked", 100.0, 100.2)
    span(story, "answered", 856.2, 856.4)
    axis = waterfall.waterfall(story.session, "i1")
    assert axis.seconds == pytest.approx(0.4, abs=1e-5)
    assert [(bar.name, bar.start, bar.width) for bar in axis.bars] == [
        ("asked", 0, 500),
        ("answered", 500, 500),
    ]


def test_stages_name_pauses_and_exclude_them():
    story = Story()
    trace_of(story, [*BEGUN, *ANSWERED])
    stages = waterfall.waterfall(story.session, "i1").stages
    assert [round(stage.since_start, 3) for stage in stages] == [0, 0.1, 0.2, 0.2, 0.3, 0.4]
    assert [round(stage.paused, 3) for stage in stages] == [0, 0, 0, 756, 0, 0]
    assert stages[3].seconds == 0


def test_waiting_run_ends_with_its_question(get):
    """So the runs page counts no waiting: the answer begins a run of its own."""
    story = Story()
    for began, status in ((100.0, "done"), (856.2, "done")):
        Run.objects.create(
            id=f"r{began:.0f}",
            session=story.session,
            invocation_id="i1",
            status=status,
            created_at=began,
            started_at=began,
            finished_at=began + 0.2,
        )
    assert [
        cell.text.strip() for cell in get("/runs/").all("td") if cell.attrs.get("data-label") == "Duration"
    ] == [
        "200 ms",
        "200 ms",
    ]
