"""Demo sessions that are moved into the past."""

from __future__ import annotations

import json
import time

from devui.serving.demo_times import DAY_S, move_sessions
from sessions_app.store.models import (
    AgentSession,
    Event,
    ModelCall,
    Run,
    Span,
    StateChange,
    Trace,
    TrendBucket,
)
from sessions_app.trends import rollup
from tests.timeline.story import START, Story


def test_times_of_a_session_are_moved_and_its_order_stays(db: None):
    story = Story()
    story.asks("hello")
    story.says("hi", delta={"city": "Rome"})
    before = story.session
    move_sessions({story.pk: 2})
    session = story.session
    assert (session.created_at, session.updated_at) == (
        before.created_at - 2 * DAY_S,
        before.updated_at - 2 * DAY_S,
    )
    assert session.revision == before.revision
    for event in Event.objects.filter(session=story.pk):
        expected = START + event.seq - 2 * DAY_S
        assert (event.timestamp, json.loads(event.data)["timestamp"]) == (expected, expected)
    assert StateChange.objects.get().timestamp < START


def test_records_are_moved_and_trends_are_counted_on_the_earlier_day(db: None):
    start = time.time() // 1 - 3600
    story = Story()
    story.asks("hello")
    facts = {"session_id": story.pk, "invocation_id": "i1"}
    stages = json.dumps([["loaded", start, "agent"], ["end", start + 1, "agent"]])
    Trace.objects.create(**facts, root_agent="agent", started_at=start, finished_at=start + 1, stages=stages)
    ModelCall.objects.create(
        **facts, ref="c", number=1, agent="agent", started_at=start, finished_at=start + 1, request="{}"
    )
    Span.objects.create(
        **facts, name="s", kind="agent", started_ns=int(start * 1e9), ended_ns=int(start * 1e9) + 5
    )
    Run.objects.create(id="r", **facts, status=Run.Status.DONE, created_at=start, started_at=start)
    AgentSession.objects.update(problems_seq=1)
    rollup.count_all()
    move_sessions({story.pk: 3})
    rollup.count_all()
    earlier = start - 3 * DAY_S
    trace, call, span, run = (
        Trace.objects.get(),
        ModelCall.objects.get(),
        Span.objects.get(),
        Run.objects.get(),
    )
    assert (trace.started_at, trace.finished_at, trace.decoded_stages[0][1]) == (
        earlier,
        earlier + 1,
        earlier,
    )
    assert (call.started_at, call.first_at, run.started_at, run.finished_at) == (earlier, None, earlier, None)
    assert span.ended_ns - span.started_ns == 5
    assert {bucket.first_at for bucket in TrendBucket.objects.all()} <= {earlier, earlier + 1}
    assert TrendBucket.objects.exists()


def test_other_sessions_stay_where_they_are(db: None):
    story, other = Story(), Story("s2")
    other.asks("hello")
    before = other.session.updated_at
    move_sessions({story.pk: 1})
    assert AgentSession.objects.get(pk=other.pk).updated_at == before
