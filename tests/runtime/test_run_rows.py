"""The rows of runs and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from sessions_app.agent_processes import processes
from sessions_app.delivery.failure import Failure
from sessions_app.delivery.ownership import UNASSIGNED_S
from sessions_app.runs import lifecycle
from sessions_app.store.errors import SessionMissing
from sessions_app.store.events import build_record
from sessions_app.store.models import AgentSession, Run, RuntimeProcess
from sessions_app.store.runs import session_runs
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.writes import SessionKey
from tests.runtime.run_rows import new_process, new_run, new_session
from tests.settable_clock import STEPS_S, Clock, later

Status = Run.Status


def status(run: Run) -> str:
    return Run.objects.get(pk=run.pk).status


@pytest.fixture
def session(db) -> AgentSession:
    return new_session()


@pytest.fixture
def runtime(db) -> RuntimeProcess:
    return new_process()


def test_run_is_queued_with_its_request(session):
    run = new_run(session, "wie geht's? \ud800")

    stored = Run.objects.get(pk=run.pk)
    assert stored.status == Status.QUEUED
    assert json.loads(stored.request)["new_message"]["parts"][0]["text"].startswith("wie geht's?")
    assert session_runs.active_run(session.pk) == stored


def test_a_run_on_a_session_that_does_not_exist_is_refused(db):
    with pytest.raises(SessionMissing, match="Session not found: 4711"):
        lifecycle.create_run(4711, {})


def test_a_run_is_claimed_only_once(session, runtime):
    run = new_run(session)

    claimed = lifecycle.claim(run.pk, runtime.pk, "v1")

    assert claimed is not None
    assert (claimed.status, claimed.code_version, claimed.first_seq) == (Status.RUNNING, "v1", 0)
    assert lifecycle.claim(run.pk, runtime.pk, "v1") is None


def test_run_waits_for_earlier_ones_on_its_session(session, runtime):
    first, second = new_run(session, "one"), new_run(session, "two")

    assert lifecycle.claim(second.pk, runtime.pk, "v1") is None
    assert lifecycle.claim(first.pk, runtime.pk, "v1") is not None
    assert lifecycle.claim(second.pk, runtime.pk, "v1") is None
    lifecycle.finish(first.pk, Status.DONE)
    assert lifecycle.claim(second.pk, runtime.pk, "v1") is not None


def test_runs_on_different_sessions_do_not_wait_for_each_other(session, runtime):
    new_run(session)
    other = new_run(new_session("s2"))

    assert lifecycle.claim(other.pk, runtime.pk, "v1") is not None


def test_first_outcome_of_a_run_is_final(session, runtime):
    run = new_run(session)
    lifecycle.claim(run.pk, runtime.pk, "v1")
    writes.edit_state(SessionKey("", "weather", "ann", "s1"), {"a": 1})

    assert lifecycle.finish(run.pk, Status.FAILED, Failure("ValueError", "no \x00", "Traceback…"))
    assert not lifecycle.finish(run.pk, Status.DONE)

    ended = Run.objects.get(pk=run.pk)
    assert (ended.status, ended.error_type, ended.last_seq) == (Status.FAILED, "ValueError", 1)
    assert ended.error == "no \N{REPLACEMENT CHARACTER}"
    assert session_runs.active_run(session.pk) is None


def test_active_run_of_a_session_is_the_started_one(session, runtime):
    first, second = new_run(session), new_run(session)
    lifecycle.claim(first.pk, runtime.pk, "v1")

    assert session_runs.active_run(session.pk) == first
    lifecycle.finish(first.pk, Status.WAITING)
    assert session_runs.active_run(session.pk) == second


def test_cancellation_reaches_the_process_of_the_run(session, runtime):
    run = new_run(session)
    lifecycle.claim(run.pk, runtime.pk, "v1")
    assert lifecycle.cancel_requests(runtime.pk) == []

    assert lifecycle.request_cancel(run.pk)

    assert lifecycle.cancel_requests(runtime.pk) == [run.pk]
    lifecycle.finish(run.pk, Status.CANCELLED)
    assert lifecycle.cancel_requests(runtime.pk) == []
    assert not lifecycle.request_cancel(run.pk)


def event(event_id: str, author: str, **parts) -> dict:
    content = {"role": "model", "parts": [parts]}
    return {"id": event_id, "invocationId": "i1", "author": author, "timestamp": 1.0, "content": content}


def test_a_long_running_call_is_open_until_the_user_answers_it(session):
    key = SessionKey("", "weather", "ann", "s1")
    call = event("e1", "weather", functionCall={"id": "c1", "name": "pay", "args": {}})
    writes.append_event(key, build_record({**call, "longRunningToolIds": ["c1"]}))
    pending = {"id": "c1", "name": "pay", "response": {"status": "pending"}}
    writes.append_event(key, build_record(event("e2", "weather", functionResponse=pending)))
    assert session_runs.open_call_ids(session.pk, "i1") == ["c1"]
    assert session_runs.open_call_ids(session.pk, "another") == []

    answer = {"id": "c1", "name": "pay", "response": {"status": "approved"}}
    writes.append_event(key, build_record(event("e3", "user", functionResponse=answer)))
    assert session_runs.open_call_ids(session.pk, "i1") == []


def test_runs_crash_with_their_process_with_reason(session, runtime):
    running, queued = new_run(session), new_run(session)
    done = new_run(new_session("s2"))
    lifecycle.claim(running.pk, runtime.pk, "v1")
    lifecycle.assign(queued.pk, runtime.pk)
    lifecycle.assign(done.pk, runtime.pk)
    lifecycle.finish(done.pk, Status.DONE)

    crashed = lifecycle.crash_runs(runtime.pk, "Signal 9.")

    assert sorted(crashed) == sorted([running.pk, queued.pk])
    assert status(running) == status(queued) == Status.CRASHED
    assert Run.objects.get(pk=running.pk).error == "Signal 9."
    assert status(done) == Status.DONE


def test_runs_of_missing_process_are_orphans(session):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        runtime = new_process(pid=process.pid)
        run = new_run(session)
        lifecycle.claim(run.pk, runtime.pk, "v1")
        assert lifecycle.crash_orphans() == []

    assert lifecycle.crash_orphans() == [run.pk]
    assert status(run) == Status.CRASHED
    assert RuntimeProcess.objects.get(pk=runtime.pk).stopped_at is not None


def test_unstarted_run_belongs_to_the_server_until_it_ends(session):
    server = processes.register("web", processes.SERVER_APP, os.getpid(), "")
    runtime = processes.register("r2", "weather", os.getpid(), "v1", server.pk)
    run = new_run(session)
    assert lifecycle.abandoned_runs() == []
    lifecycle.assign(run.pk, runtime.pk)
    processes.mark_stopped(runtime.pk)
    with later(UNASSIGNED_S + 1):
        assert (lifecycle.crash_orphans(), lifecycle.abandoned_runs()) == ([], [])

    processes.mark_stopped(server.pk)
    assert (lifecycle.crash_orphans(), lifecycle.abandoned_runs()) == ([], [(run.pk, "weather")])
    assert status(run) == Status.QUEUED


def test_runs_queued_behind_crashed_one_keep_their_order(session, runtime):
    started_run, first, second = new_run(session), new_run(session), new_run(session)
    lifecycle.claim(started_run.pk, runtime.pk, "v1")
    for run in (second, first):
        lifecycle.assign(run.pk, runtime.pk)
    processes.mark_stopped(runtime.pk)

    assert lifecycle.crash_orphans() == [started_run.pk]
    assert lifecycle.abandoned_runs() == [(first.pk, "weather"), (second.pk, "weather")]


def test_queued_run_to_be_cancelled_is_cancelled(session, runtime):
    run = new_run(session)
    lifecycle.assign(run.pk, runtime.pk)
    lifecycle.request_cancel(run.pk)
    processes.mark_stopped(runtime.pk)

    lifecycle.crash_orphans()

    assert (status(run), lifecycle.abandoned_runs()) == (Status.CANCELLED, [])


def test_started_run_is_not_ended_as_queued(session, runtime):
    started_run, waiting = new_run(session), new_run(session)
    lifecycle.claim(started_run.pk, runtime.pk, "v1")
    assert not lifecycle.end_queued(started_run.pk, Status.FAILED, Failure("X", "no"))
    assert lifecycle.end_queued(waiting.pk, Status.FAILED, Failure("X", "no"))
    assert (status(started_run), status(waiting)) == (Status.RUNNING, Status.FAILED)


def test_a_run_of_adks_path_is_not_handed_on(session, runtime):
    ours = new_run(session)
    lifecycle.create_run(session.pk, {}, lifecycle.ADK_SOURCE, runtime.pk)
    lifecycle.assign(ours.pk, runtime.pk)
    assert lifecycle.list_unstarted(runtime.pk) == [ours.pk]


def test_run_of_adks_path_crashes_with_its_process(session, runtime):
    run = lifecycle.create_run(session.pk, {}, lifecycle.ADK_SOURCE, runtime.pk)
    processes.mark_stopped(runtime.pk)

    assert (lifecycle.abandoned_runs(), lifecycle.crash_orphans(), status(run)) == (
        [],
        [run.pk],
        Status.CRASHED,
    )


@pytest.mark.parametrize("step", STEPS_S)
def test_untaken_run_is_left_behind_despite_clock_changes(session, monkeypatch, tmp_path, step):
    clock = Clock(monkeypatch, tmp_path / "shift")
    run = new_run(session)
    assert lifecycle.abandoned_runs() == []
    clock.step(step)
    assert lifecycle.abandoned_runs() == []
    with later(UNASSIGNED_S - 1):
        assert lifecycle.abandoned_runs() == []
    with later(UNASSIGNED_S + 1):
        assert (lifecycle.crash_orphans(), lifecycle.abandoned_runs()) == ([], [(run.pk, "weather")])


def test_processes_that_ended_long_ago_are_forgotten_a_few_at_a_time(session):
    names = [f"old-{number}" for number in range(processes.BATCH + 1)]
    for name in (*names, "young", "living", "busy"):
        new_process(name)
    long_ago = time.time() - processes.RETENTION_S - 1
    RuntimeProcess.objects.filter(pk__in=[*names, "busy"]).update(stopped_at=long_ago)
    processes.mark_stopped("young")
    run, queued = new_run(session), new_run(session)
    lifecycle.claim(run.pk, "old-1", "v1")
    lifecycle.finish(run.pk, Status.DONE)
    lifecycle.assign(queued.pk, "busy")

    assert [processes.delete_stopped() for _ in range(3)] == [processes.BATCH, 1, 0]

    remaining = set(RuntimeProcess.objects.values_list("pk", flat=True))
    assert remaining == {"young", "living", "busy"}
    ended = Run.objects.get(pk=run.pk)
    assert (ended.status, ended.runtime_id) == (Status.DONE, None)
