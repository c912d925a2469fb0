"""Clock changes during runs: processes stay alive, order and durations stay right."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from django.db import connection

from devui.supervisor import process_cleanup
from sessions_app.agent_processes import processes
from sessions_app.agents import cards
from sessions_app.runs import lifecycle
from sessions_app.store.database import units_of_work
from sessions_app.store.database.stopwatch import Stopwatch
from sessions_app.store.errors import RuntimeUnavailable
from sessions_app.store.models import AgentCard, ModelCall, Run, RuntimeProcess, Trace
from sessions_app.store.runs import session_runs
from tests import settable_clock as clocks
from tests.runtime.conftest import read_run, until
from tests.runtime.run_rows import new_process, new_run, new_session
from tests.settable_clock import STEPS_S, Clock

Status = Run.Status


@pytest.fixture
def clock(monkeypatch, tmp_path) -> Clock:
    return Clock(monkeypatch, tmp_path / "shift")


@pytest.fixture
def session(db):
    return new_session()


@pytest.mark.parametrize("step", STEPS_S)
def test_live_process_is_recognized_after_clock_change(session, clock, step):
    run = new_run(session)
    lifecycle.claim(run.pk, new_process().pk, "v1")
    clock.step(step)
    assert lifecycle.crash_orphans() == []


def test_reused_pid_is_no_live_process(session):
    runtime = new_process()
    run = new_run(session)
    lifecycle.claim(run.pk, runtime.pk, "v1")
    boot, ticks = processes.identity(os.getpid()).rsplit(" ", 1)
    RuntimeProcess.objects.update(pid_identity=f"{boot} {int(ticks) + 1}")
    assert lifecycle.crash_orphans() == [run.pk]


def test_a_pid_of_another_boot_is_another_process():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = processes.identity(process.pid)
        assert identity == processes.identity(process.pid) != processes.identity(os.getpid())
        if sys.platform.startswith("linux"):
            with open("/proc/sys/kernel/random/boot_id") as boot:
                assert identity.startswith(boot.read().strip() + " ")
    assert processes.identity(process.pid) is None


def test_process_without_identity_counts_as_gone(session):
    """As a row that a DevUI wrote before identities existed."""
    run = new_run(session)
    lifecycle.claim(run.pk, new_process().pk, "v1")
    RuntimeProcess.objects.update(pid_identity="")
    assert lifecycle.crash_orphans() == [run.pk]


def test_start_time_of_ps_distinguishes_processes(monkeypatch):
    """As on macOS."""
    own = processes._start_by_ps(os.getpid())
    monkeypatch.setattr(processes, "PLATFORM", "darwin")
    assert processes.identity(os.getpid()) == own
    assert time.strptime(own)
    assert processes.identity(2**22 + 1) is None


@pytest.fixture(params=["on another host", "with an engine"])
def watched(request, session, monkeypatch, settings):
    """A process whose heartbeat decides whether it is alive, and its run."""
    runtime = new_process()
    run = new_run(session)
    lifecycle.claim(run.pk, runtime.pk, "v1")
    if request.param == "with an engine":
        settings.DEVUI_ENGINE = "procrastinate"
        new_process_of_another_host()
    else:
        RuntimeProcess.objects.update(host=socket.gethostname() + "-other", pid=1)
    return runtime, run


def new_process_of_another_host():
    RuntimeProcess.objects.create(id="elsewhere", host="elsewhere", pid=1, started_at=1.0, heartbeat_at=1.0)


@pytest.fixture
def passing(monkeypatch):
    """Lets seconds of the monotonic clock pass."""
    passed, steady = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: steady() + sum(passed))
    return passed.append


@pytest.mark.parametrize("step", STEPS_S)
def test_process_with_heartbeats_is_alive_despite_clock_changes(watched, clock, passing, step):
    runtime, run = watched
    assert lifecycle.crash_orphans() == []
    clock.step(step)
    passing(processes.SILENCE_S * 0.4)
    assert lifecycle.crash_orphans() == []
    processes.record_heartbeat(runtime.pk)
    for _ in range(3):
        assert lifecycle.crash_orphans() == [], "it beat a while ago"
        passing(processes.SILENCE_S * 0.4)
    assert lifecycle.crash_orphans() == [run.pk]


def test_time_in_which_nobody_could_read_heartbeats_is_no_silence(watched, passing):
    """As while PostgreSQL is down, or the reader is paused."""
    assert lifecycle.crash_orphans() == []
    passing(processes.SILENCE_S * 2)
    assert lifecycle.crash_orphans() == []
    passing(processes.SILENCE_S * 0.4)
    assert lifecycle.crash_orphans() == []


@pytest.mark.skipif(connection.vendor != "sqlite", reason="with PostgreSQL a worker may need each heartbeat")
def test_heartbeat_is_not_written_while_all_processes_are_of_this_host(session):
    runtime = new_process()
    RuntimeProcess.objects.update(heartbeat_at=1.0)
    processes.record_heartbeat(runtime.pk)
    runtime.refresh_from_db()
    assert runtime.heartbeat_at == 1.0
    new_process_of_another_host()
    processes.record_heartbeat(runtime.pk)
    runtime.refresh_from_db()
    assert runtime.heartbeat_at > 1.0


def test_silent_process_of_this_host_is_alive_without_an_engine(session, passing):
    """As in a debugger."""
    run = new_run(session)
    lifecycle.claim(run.pk, new_process().pk, "v1")
    for _ in range(4):
        assert lifecycle.crash_orphans() == []
        passing(processes.SILENCE_S * 0.4)


def test_whether_a_process_on_another_host_lives_is_waited_for(session, monkeypatch):
    slept, steady = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: steady() + sum(slept))
    monkeypatch.setattr(time, "sleep", slept.append)
    runtime = new_process()
    assert processes.confirm_alive(runtime)
    RuntimeProcess.objects.update(host=socket.gethostname() + "-other")
    runtime.refresh_from_db()
    assert not processes.confirm_alive(runtime)
    processes.record_heartbeat(runtime.pk)
    runtime.refresh_from_db()
    monkeypatch.setattr(time, "sleep", lambda _: processes.record_heartbeat(runtime.pk))
    assert processes.confirm_alive(runtime)


def test_queue_order_survives_a_clock_set_back(session, clock):
    runtime = new_process()
    first = new_run(session)
    clock.step(-3600)
    second, third = new_run(session), new_run(session)
    assert lifecycle.claim(second.pk, runtime.pk, "v1") is None
    lifecycle.claim(first.pk, runtime.pk, "v1")
    assert lifecycle.claim(second.pk, runtime.pk, "v1") is None
    assert session_runs.active_run(session.pk) == first
    lifecycle.finish(first.pk, Status.DONE)
    assert session_runs.active_run(session.pk) == second
    assert lifecycle.claim(third.pk, runtime.pk, "v1") is None
    assert lifecycle.claim(second.pk, runtime.pk, "v1")


def test_runs_stay_sequential_despite_clock_changes(session):
    runtime = new_process()
    running, queued = new_run(session), new_run(session)
    lifecycle.claim(running.pk, runtime.pk, "v1")
    Run.objects.filter(pk=queued.pk).update(created_at=running.created_at - 60)
    assert lifecycle.claim(queued.pk, runtime.pk, "v1") is None
    assert session_runs.active_run(session.pk) == running


def test_a_run_never_ends_before_it_began(session, clock):
    run = new_run(session)
    lifecycle.claim(run.pk, new_process().pk, "v1")
    clock.step(-3600)
    lifecycle.finish(run.pk, Status.CRASHED)
    ended = Run.objects.get(pk=run.pk)
    assert ended.finished_at == ended.started_at


@pytest.mark.parametrize("step", [min(STEPS_S), max(STEPS_S)])
async def test_failed_start_is_shown_though_the_clock_was_set(supervise, agents_dir, clock, step):
    clock.step(-step)
    await units_of_work.write(cards.save_loaded, "talker", "v0", {})
    clock.step(step)
    (agents_dir / "talker" / "agent.py").write_text("import os\nos._exit(7)\n")
    async with supervise() as stage:
        run = await stage.queue(await stage.session("talker"), "say hi")
        with suppress(RuntimeUnavailable):
            await stage.deliver(run)
        card = await until(
            lambda: units_of_work.read(AgentCard.objects.get, app_name="talker"),
            lambda card: card.status == AgentCard.Status.FAILED,
        )
    assert "(exit status 7)" in card.error


@pytest.mark.parametrize("step", STEPS_S)
def test_reported_problem_survives_clock_change(db, clock, step):
    child = SimpleNamespace(app_name="talker", card_before=cards.last_checked_at("talker"))
    clock.step(step)
    cards.save_failure("talker", "v1", {"type": "ImportError", "message": "no rain"})
    process_cleanup.write_failed_card(child)
    assert "no rain" in AgentCard.objects.get().error


@pytest.mark.parametrize("step", STEPS_S)
def test_stopwatch_ignores_clock_changes(clock, step):
    watch = Stopwatch()
    before = watch.now()
    clock.step(step)
    assert before <= watch.now() < before + 60
    assert watch.clock_error() == pytest.approx(step, abs=1)


@pytest.mark.soak
async def test_runs_go_on_when_the_clock_is_set(supervise, agents_dir, clock):
    agent = agents_dir / "talker" / "agent.py"
    agent.write_text(clocks.IN_AN_AGENT.format(file=str(clock.file)) + agent.read_text())
    async with supervise(sweep=0.02) as stage:
        session = await stage.session("talker")
        words = "say " + " ".join(["word"] * 80)
        run = await stage.start(session, words, streaming=True)
        await stage.first_text(run, "talker")
        began = time.monotonic()
        waiting = []
        for step in STEPS_S:
            clock.step(step)
            await swept()
            waiting.append(await stage.start(session, "say hi"))
        assert (await read_run(run)).status == Status.RUNNING

        ended = [await stage.end_of(run_row) for run_row in (run, *waiting)]
        took = time.monotonic() - began

    assert [item.status for item in ended] == [Status.DONE] * 5
    assert [item.first_seq for item in ended] == sorted({item.first_seq for item in ended}), (
        "one after the other"
    )
    durations = [item.finished_at - item.started_at for item in ended]
    assert all(0 <= seconds < took + 60 for seconds in durations), durations
    for row in await units_of_work.read(lambda: [*ModelCall.objects.all(), *Trace.objects.all()]):
        assert 0 <= row.finished_at - row.started_at < took + 60


async def swept() -> None:
    """Return when the supervisor has looked for orphans since."""
    stopped = RuntimeProcess.objects.filter(stopped_at__isnull=False)
    dead = await units_of_work.write(processes.register, os.urandom(8).hex(), "talker", 2**22 + 1, "v1")
    await until(lambda: units_of_work.read(stopped.filter(pk=dead.pk).exists), bool)
