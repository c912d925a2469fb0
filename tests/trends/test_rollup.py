"""Roll-up of invocations: exactly once, whatever the batches, restarts, late ends, deletions and other processes."""

from __future__ import annotations

import json
import math
import random
import threading
from collections import Counter, defaultdict

import pytest
from django.db import connection

from sessions_app.problems import session_checks
from sessions_app.search import indexing
from sessions_app.sessions import deletion
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Run, SessionProblem, Span, Trace, TrendBucket
from sessions_app.store.traces.outbox import outbox
from sessions_app.trends import histogram, rollup
from tests.fake_models import ScriptedModel
from tests.problems.agent_runs import converse
from tests.timeline.story import Story
from tests.trends.recorded import (
    START,
    Call,
    Invocation,
    add_model_call,
    end,
    record,
    resume,
    session,
)

pytestmark = pytest.mark.django_db

Measure, Dimension = TrendBucket.Measure, TrendBucket.Dimension
SUMS = ("count", "errors", "prompt_tokens", "cached_tokens", "output_tokens")


def rows(measure: str, dimension: str = Dimension.ALL, *, hourly: bool = False) -> list[TrendBucket]:
    return list(TrendBucket.objects.filter(measure=measure, dimension=dimension, hourly=hourly))


def total(measure: str, column: str = "count", **of: str) -> int:
    buckets = TrendBucket.objects.filter(measure=measure, dimension=Dimension.ALL, hourly=False, **of)
    return sum(buckets.values_list(column, flat=True))


def test_calls_of_an_invocation_are_counted_by_model_tool_agent_user_and_code():
    call = Call("flash", seconds=2.0, first=0.5)
    record(
        session(),
        Invocation(models=[call, call], tools=[Call("look", failed=True)], code="c1", revision="r1+"),
    )
    assert rollup.count_all() == 1
    for dimension, value in (("all", ""), ("agent", "planner"), ("user", "ann"), ("code", "c1")):
        [model] = rows(Measure.MODEL, dimension)
        assert (model.value, model.name, model.app_name) == (value, "flash", "weather")
        assert [getattr(model, column) for column in SUMS] == [2, 0, 200, 20, 40]
        [tool] = rows(Measure.TOOL, dimension)
        assert (tool.value, tool.name, tool.count, tool.errors) == (value, "look", 1, 1)
        [invocation] = rows(Measure.INVOCATION, dimension)
        assert (invocation.value, invocation.name, invocation.count) == (value, "", 1)
    [code] = rows(Measure.MODEL, "code", hourly=True)
    assert (code.label, code.start) == ("r1+", START // 3600 * 3600)
    assert histogram.quantile(histogram.load(code.latency), 0.5) == pytest.approx(
        2.0, rel=histogram.MAX_ERROR
    )
    assert histogram.quantile(histogram.load(code.first_token), 0.5) == pytest.approx(
        0.5, rel=histogram.MAX_ERROR
    )


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 6))])
def test_totals_of_random_rows_are_those_of_a_direct_count(seed, monkeypatch):
    chance = random.Random(seed)
    expected: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    seconds: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    owners = [session(user, app) for user in ("ann", "ben") for app in ("weather", "office")]
    unfinished = []

    def expect(measure: str, dimension: str, value: str, call: Call) -> None:
        prompt, output, cached = call.tokens
        key = (measure, dimension, value)
        expected[key].update(count=1, errors=int(call.failed))
        if measure == Measure.MODEL:
            expected[key].update(prompt_tokens=prompt, output_tokens=output, cached_tokens=cached)
        if call.seconds is not None:
            seconds[key].append(call.seconds)

    def random_call(name: str) -> Call:
        tokens = chance.randrange(1000), chance.randrange(100), chance.randrange(50)
        failed = chance.random() < 0.2
        return Call(name, chance.lognormvariate(0, 2), chance.random(), None, failed, tokens)

    for _ in range(60):
        monkeypatch.setattr(rollup, "BATCH_TRACES", chance.randint(1, 9))
        owner = chance.choice(owners)
        invocation = Invocation(
            START + chance.randrange(200_000),
            chance.choice([None, 1.0, 30.0]),
            agent=chance.choice(["planner", "critic"]),
            end=chance.choice(["end", "failed"]),
            models=[random_call(chance.choice(["flash", "pro"])) for _ in range(chance.randrange(4))],
            tools=[random_call(chance.choice(["look", "find"])) for _ in range(chance.randrange(3))],
            code=chance.choice(["", "c1", "c2"]),
        )
        whole = Call("", invocation.seconds or 7.0, failed=invocation.end == "failed")
        for dimension, value in (
            ("all", ""),
            ("agent", invocation.agent),
            ("user", owner.user_id),
            ("code", invocation.code),
        ):
            expect(Measure.INVOCATION, dimension, value, whole)
            for call in invocation.models:
                expect(Measure.MODEL, dimension, value, call)
            for call in invocation.tools:
                expect(Measure.TOOL, dimension, value, call)
        trace = record(owner, invocation)
        if invocation.seconds is None:
            unfinished.append((trace, invocation))
        if chance.random() < 0.3 and (batch := rollup.read_batch()):
            if chance.random() < 0.5:
                batch = rollup.read_batch()  # the process died before it stored the first one
            rollup.store(batch)
        if chance.random() < 0.2 and unfinished:
            trace, late = unfinished.pop()
            end(trace, late.at + 7.0, late.end)
    for trace, late in unfinished:
        end(trace, late.at + 7.0, late.end)
    rollup.count_all()
    for (measure, dimension, value), sums in expected.items():
        buckets = [row for row in rows(measure, dimension) if row.value == value]
        assert {column: sum(getattr(row, column) for row in buckets) for column in SUMS} == {
            column: sums[column] for column in SUMS
        }
        merged = sum((histogram.load(row.latency) for row in buckets), Counter())
        durations = sorted(seconds[measure, dimension, value])
        for share in (0.5, 0.9, 0.99):
            exact = max(durations[math.ceil(share * len(durations)) - 1], histogram.SHORTEST)
            assert histogram.quantile(merged, share) == pytest.approx(exact, rel=histogram.MAX_ERROR + 1e-9)
    days = sum(row.count for row in rows(Measure.MODEL))
    assert days == sum(row.count for row in rows(Measure.MODEL, hourly=True))
    assert days == sum(row.count for row in rows(Measure.MODEL, Dimension.SAMPLE))


def test_call_that_ends_late_is_counted_once():
    owner, invocation = session(), Invocation(seconds=None, models=[Call("flash", seconds=None)])
    trace = record(owner, invocation)
    assert rollup.count_all() == 0
    owner.model_calls.update(finished_at=START + 5)
    end(trace, START + 6)
    assert rollup.count_all() == 1
    assert rollup.count_all() == 0
    assert total(Measure.MODEL) == 1


def test_resumed_invocation_adds_only_what_came_after_its_first_end():
    owner, invocation = session(), Invocation(models=[Call("flash")])
    trace = record(owner, invocation)
    rollup.count_all()
    resume(trace, START + 3_000)
    assert rollup.count_all() == 0
    add_model_call(owner, invocation, Call("flash", after=3_001.0))
    end(trace, START + 3_005)
    rollup.count_all()
    assert total(Measure.MODEL) == total(Measure.INVOCATION) == 2
    latency = sum((histogram.load(row.latency) for row in rows(Measure.INVOCATION)), Counter())
    assert histogram.quantile(latency, 1.0) == pytest.approx(5.0, rel=0.05)  # no waiting time


def test_resumed_invocation_counts_the_same_if_its_parts_are_counted_together():
    owner, invocation = session(), Invocation(models=[Call("flash")])
    trace = record(owner, invocation)
    resume(trace, START + 3_000)
    end(trace, START + 3_005)
    rollup.count_all()
    assert total(Measure.INVOCATION) == 2


def test_batch_is_dropped_whole_if_another_process_counted_it():
    record(session(), Invocation())
    batch, same = rollup.read_batch(), rollup.read_batch()
    assert rollup.store(batch) is True
    assert rollup.store(same) is False
    assert total(Measure.INVOCATION) == 1


def test_batch_is_dropped_if_an_invocation_was_resumed_meanwhile():
    trace = record(session(), Invocation())
    batch = rollup.read_batch()
    resume(trace, START + 60)
    assert rollup.store(batch) is False
    assert not TrendBucket.objects.exists()


def test_cursor_and_buckets_are_written_together(monkeypatch):
    record(session(), Invocation())

    def fail(totals: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rollup, "add_to_buckets", fail)
        with pytest.raises(KeyboardInterrupt):
            rollup.store(rollup.read_batch())
    assert Trace.objects.get().counted_until == 0
    rollup.count_all()
    assert total(Measure.INVOCATION) == 1


def test_invocation_waits_for_its_run_and_its_checks():
    owner = session()
    record(owner, Invocation(code="c1"))
    Run.objects.update(status=Run.Status.RUNNING)
    assert rollup.count_all() == 0
    Run.objects.update(status=Run.Status.DONE)
    type(owner).objects.update(last_seq=1)
    assert rollup.count_all() == 0
    type(owner).objects.update(problems_seq=1)
    assert rollup.count_all() == 1


def test_crashed_run_counts_as_an_error_and_a_cancelled_one_does_not():
    for status in (Run.Status.CRASHED, Run.Status.CANCELLED):
        invocation = Invocation(end=Trace.CUT_OFF, code="c1")
        record(session(), invocation)
        Run.objects.filter(invocation_id=invocation.id).update(status=status)
    rollup.count_all()
    assert (total(Measure.INVOCATION), total(Measure.INVOCATION, "errors")) == (2, 1)


def test_problems_are_counted_by_code_with_those_that_are_not_stored():
    owner, invocation = session(), Invocation()
    record(owner, invocation)
    for severity in ("error", "warning", "note"):
        SessionProblem.objects.create(
            session=owner,
            code=f"an-{severity}",
            severity=severity,
            invocation_id=invocation.id,
            text="x",
            more=2,
        )
    rollup.count_all()
    assert {(row.name, row.count, row.errors) for row in rows(Measure.PROBLEM)} == {
        ("an-error", 3, 3),
        ("an-warning", 3, 0),
    }


def test_deleted_and_purged_sessions_stay_in_the_trends():
    counted, deleted = session(), session("ben")
    record(counted, Invocation(models=[Call("flash")]))
    rollup.count_all()
    record(deleted, Invocation(models=[Call("flash")]))
    deletion.delete([counted.pk, deleted.pk])
    rollup.count_all()
    assert total(Measure.MODEL) == 2
    deletion.delete_for_good(counted.pk)
    assert total(Measure.MODEL) == 2


def test_eval_attempts_are_not_counted_even_if_deleted():
    record(session(realm="eval/1"), Invocation())
    deleted = session(realm="eval/2")
    record(deleted, Invocation())
    deletion.delete([deleted.pk])
    rollup.count_all()
    assert not TrendBucket.objects.exists()
    assert rollup.read_batch() is None


def test_hostile_names_are_truncated_and_never_stop_the_worker():
    name = "x" * 5_000 + "\ufffd'\"\\"
    record(session(), Invocation(agent=name, models=[Call(name)], tools=[Call(name)]))
    rollup.count_all()
    [model] = rows(Measure.MODEL, Dimension.AGENT)
    assert (model.value, model.name) == (name[: rollup.MAX_NAME], name[: rollup.MAX_NAME])


def test_batch_takes_a_bounded_number_of_queries(django_assert_max_num_queries):
    owner = session()
    for _ in range(rollup.BATCH_TRACES):
        record(owner, Invocation(models=[Call("flash")], tools=[Call("look")], code="c1"))
    with django_assert_max_num_queries(5):
        batch = rollup.read_batch()
    with django_assert_max_num_queries(rollup.BATCH_TRACES + 6):
        rollup.store(batch)


@pytest.mark.django_db(transaction=True)
def test_two_processes_on_postgresql_add_to_the_same_bucket_in_turn():
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer")
    owner = session()
    batches = []
    for _ in range(8):
        record(owner, Invocation(models=[Call("flash")]))
        batches.append(rollup.read_batch())
        Trace.objects.update(finished_at=None)  # hides it from the next batch
    for batch in batches:
        Trace.objects.filter(pk=batch.traces[0].pk).update(finished_at=batch.traces[0].finished_at)
    threads = [threading.Thread(target=_store_and_close, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total(Measure.MODEL) == 8


def _store_and_close(batch: rollup.Batch) -> None:
    try:
        rollup.store(batch)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
async def test_turn_on_adk_s_runner_is_counted(store):
    await converse("hello", model=ScriptedModel.saying("hello"))
    await outbox().wait_written()

    def count() -> list[tuple[str, str, int]]:
        indexing.index_all()
        session_checks.check_all()
        rollup.count_all()
        return sorted(
            (row.measure, row.value, row.count) for row in TrendBucket.objects.filter(dimension="agent")
        )

    counted = await units_of_work.write(count)
    assert counted == [(measure, "agent", 1) for measure in ("invocation", "invocation", "model", "model")]


@pytest.mark.parametrize("at", [1e300, -1e300])
def test_problem_at_an_impossible_time_counts_at_the_start_of_its_invocation(at):
    story = Story()
    seq = story.says("x", timestamp=at)
    AgentSession.objects.update(problems_seq=seq)
    story.session.problems.create(
        code="error", severity="error", invocation_id=story.invocation, seq=seq, text="x"
    )
    record(story.session, Invocation(id=story.invocation))
    rollup.count_all()
    assert [row.first_at for row in rows(Measure.PROBLEM)] == [START]


def test_tool_name_that_columns_cannot_hold_is_counted():
    record(session(), Invocation(tools=[Call("look")]))
    names = {"gen_ai.tool.name": "a\x00b\ud800", "gen_ai.agent.name": "\x00"}
    Span.objects.update(attributes=json.dumps(names))
    rollup.count_all()
    assert [(row.name, row.value) for row in rows(Measure.TOOL, "agent")] == [("a\ufffdb\ufffd", "\ufffd")]
