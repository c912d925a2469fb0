"""Delivery of queued runs when processes end first: none is lost, failed wrongly, or redelivered forever."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator

import pytest

from sessions_app.agent_processes import processes
from sessions_app.delivery import ownership
from sessions_app.delivery.process_tries import MAX_PROCESSES
from sessions_app.runs import lifecycle
from sessions_app.runs import runtime_client as runs_client
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import RuntimeUnavailable, ServerStopping
from sessions_app.store.models import Run, RuntimeProcess
from tests.runtime.conftest import Stage, pid_of, read_run, until

pytestmark = pytest.mark.soak
Status = Run.Status


@pytest.fixture
async def own(supervise, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A stage of the test's own, which the console hands its runs to, with the test's own limits."""
    async with supervise(**getattr(request, "param", {})) as opened:
        runs_client.register(opened.supervisor)
        yield opened
        runs_client.register(None)


async def kill(stage: Stage, nap: Run) -> None:
    """End the process of a run as a kernel that is out of memory does."""
    os.kill((await read_run(nap)).runtime.pid, signal.SIGKILL)


async def is_assigned(run: Run) -> Run:
    """Wait until a run has been given to a process of its agent."""
    return await until(lambda: read_run(run), lambda row: row.runtime and row.runtime.server_id)


async def test_run_is_redelivered_if_its_process_dies_during_delivery(own: Stage):
    nap = await own.block(await own.session("napper"))
    queued = await own.queue(await own.session("napper"), 'call nap {"seconds": 0}')
    delivering = asyncio.create_task(own.deliver(queued))
    await is_assigned(queued)

    await kill(own, nap)
    await delivering

    ended = await own.end_of(queued)
    assert (ended.status, ended.error) == (Status.DONE, "")
    assert (await read_run(nap)).status == Status.CRASHED


@pytest.mark.soak
@pytest.mark.parametrize("own", [{"take": 0.1}], indirect=True, ids=["short wait"])
async def test_delivered_run_moves_to_next_process_after_death(own: Stage):
    nap = await own.block(await own.session("napper"))
    queued = await own.start(await own.session("napper"), 'call nap {"seconds": 0}')

    await kill(own, nap)

    assert (await own.end_of(queued)).status == Status.DONE


@pytest.mark.soak
async def test_dying_processes_are_replaced_a_limited_number_of_times(own: Stage, agents_dir):
    agent = agents_dir / "talker" / "agent.py"
    dies = "import os\nfrom sessions_app.runs import lifecycle as rows\nrows.claim = lambda *given: os._exit(9)\n"
    agent.write_text(dies + agent.read_text())
    run = await own.queue(await own.session("talker"), "say hi")

    await own.deliver(run)

    ended = await own.end_of(run)
    assert (ended.status, ended.error_type) == (Status.CRASHED, "RuntimeCrashed")
    assert f"{MAX_PROCESSES} processes ended before they had started it" in ended.error
    assert "exit status 9" in ended.error
    started = RuntimeProcess.objects.exclude(server=None)
    assert await units_of_work.read(started.count) == MAX_PROCESSES


@pytest.mark.soak
async def test_long_waiting_runs_are_delivered_during_orphan_sweeps(supervise, monkeypatch):
    async with supervise(sweep=0.01) as stage:
        nap = await stage.block(await stage.session("napper"))
        sessions = [await stage.session("napper") for _ in range(6)]
        queued = [await stage.queue(session, 'call nap {"seconds": 0}') for session in sessions]
        delivering = [asyncio.create_task(stage.deliver(run)) for run in queued]
        for run in queued:
            await is_assigned(run)
        monkeypatch.setattr(ownership, "UNASSIGNED_S", 0.0)

        await kill(stage, nap)

        assert {(await stage.end_of(run)).status for run in queued} == {Status.DONE}
        await asyncio.gather(*delivering)


@pytest.mark.parametrize("own", [{"take": 0.1}], indirect=True, ids=["short wait"])
async def test_process_that_fails_a_late_delivery_marks_the_run(own: Stage, agents_dir):
    agent, awake = agents_dir / "napper" / "agent.py", agents_dir.parent / "awake"
    fails = (
        "from devui.runtime import host\nread = host._read_run\n"
        "def fail_second(run_id):\n    global read\n    mine, read = read, None\n    return mine(run_id)\n"
        "host._read_run = fail_second\n"
    )
    naps = f"while not __import__('pathlib').Path({str(awake)!r}).exists(): time.sleep(0.02)"
    agent.write_text(fails + agent.read_text().replace("time.sleep(seconds)", naps))
    await own.block(await own.session("napper"))

    late = await own.start(await own.session("napper"), 'call nap {"seconds": 0}')
    assert (await read_run(late)).status == Status.QUEUED
    awake.touch()

    ended = await own.end_of(late)
    assert ended.status == Status.FAILED
    assert "TypeError" in ended.error


async def test_run_of_process_killed_while_loading_moves_to_the_next(own: Stage, agents_dir):
    agent, flag = agents_dir / "talker" / "agent.py", agents_dir.parent / "loaded-once"
    waits = f"import pathlib, time\nflag = pathlib.Path({str(flag)!r})\nif not flag.exists():\n"
    agent.write_text(waits + "    flag.touch()\n    time.sleep(60)\n" + agent.read_text())
    run = await own.queue(await own.session("talker"), "say hi")
    delivering = asyncio.create_task(own.deliver(run))

    async def is_loading() -> bool:
        return flag.exists()

    await until(is_loading, bool)
    await kill(own, run)
    await delivering

    ended = await own.end_of(run)
    assert (ended.status, ended.error) == (Status.DONE, "")


async def test_an_agent_that_cannot_be_loaded_fails_its_run_once(own: Stage, agents_dir):
    (agents_dir / "talker" / "agent.py").write_text("import os\nos._exit(7)\n")
    run = await own.queue(await own.session("talker"), "say hi")

    with pytest.raises(RuntimeUnavailable, match="exit status 7"):
        await own.deliver(run)

    ended = await own.end_of(run)
    assert (ended.status, "exit status 7" in ended.error) == (Status.CRASHED, True)
    assert await units_of_work.read(RuntimeProcess.objects.exclude(server=None).count) == 1


async def test_a_run_cancelled_while_it_is_handed_over_stays_cancelled(own: Stage):
    nap = await own.block(await own.session("napper"))
    queued = await own.queue(await own.session("napper"), 'call nap {"seconds": 0}')
    delivering = asyncio.create_task(own.deliver(queued))
    await is_assigned(queued)

    await (await own.supervisor.client("napper")).cancel_run(queued.pk)
    await kill(own, nap)
    with pytest.raises(RuntimeUnavailable):
        await delivering

    assert (await own.end_of(queued)).status == Status.CANCELLED
    await pid_of(own, "napper")
    assert (await read_run(queued)).status == Status.CANCELLED


async def test_runs_in_delivery_wait_for_the_next_server(supervise, agents_dir):
    agent = agents_dir / "talker" / "agent.py"
    source = agent.read_text()
    agent.write_text("import time\ntime.sleep(60)\n")
    async with supervise() as stage:
        run = await stage.queue(await stage.session("talker"), "say hi")
        delivering = asyncio.create_task(stage.deliver(run))
        await is_assigned(run)

    with pytest.raises(ServerStopping):
        await delivering
    assert (await read_run(run)).status == Status.QUEUED
    agent.write_text(source)
    async with supervise() as stage:
        ended = await stage.end_of(run)
    assert (ended.status, ended.error) == (Status.DONE, "")


async def test_runs_that_wait_for_their_turn_wait_for_the_next_server(supervise):
    async with supervise() as stage:
        session = await stage.session("talker")
        first_run = await stage.start(session, "say " + " ".join(["word"] * 600), streaming=True)
        waiting = [await stage.start(session, f"say {word}") for word in ("one", "two")]
        await until(lambda: read_run(first_run), lambda row: row.status == Status.RUNNING)

    assert (await read_run(first_run)).status == Status.CANCELLED
    assert [(await read_run(run)).status for run in waiting] == [Status.QUEUED, Status.QUEUED]
    async with supervise() as stage:
        ended = [await stage.end_of(run) for run in waiting]
    assert [(run.status, run.error) for run in ended] == [(Status.DONE, "")] * 2
    assert ended[0].finished_at <= ended[1].started_at


async def test_run_sent_during_server_stop_waits_for_the_next_one(supervise):
    async with supervise() as stage:
        runs_client.register(stage.supervisor)
        run = await stage.queue(await stage.session("talker"), "say hi")
        stage.supervisor.refuse_work()
        with pytest.raises(ServerStopping):
            await stage.deliver(run)
    runs_client.register(None)

    assert (await read_run(run)).status == Status.QUEUED
    async with supervise() as stage:
        assert (await stage.end_of(run)).status == Status.DONE


async def test_run_whose_agent_was_removed_ends_with_reason(supervise, agents_dir):
    async with supervise() as stage:
        sessions = [await stage.session(app) for app in ("talker", "clerk@far")]
        runs = [await stage.queue(session, "say hi") for session in sessions]
    shutil.rmtree(agents_dir / "talker")

    async with supervise() as stage:
        local, remote = [await stage.end_of(run) for run in runs]

    assert (local.status, remote.status) == (Status.FAILED, Status.FAILED)
    assert "No agent 'talker' in" in local.error
    assert "was started without a remote server 'far'. Start it with --runtime far=URL." in remote.error


async def test_queued_run_of_killed_server_moves_to_running_server(supervise):
    async with supervise(sweep=0.05) as stage:
        run = await stage.queue(await stage.session("talker"), "say hi")
        gone_run = await stage.queue(await stage.session("gone"), "say hi")
        dead = await units_of_work.write(processes.register, "web", processes.SERVER_APP, 2**22 + 1, "")
        for each in (gone_run, run):
            await units_of_work.write(lifecycle.assign, each.pk, dead.pk)

        assert (await stage.end_of(run)).status == Status.DONE
        assert (await read_run(gone_run)).status == Status.QUEUED, "that server may come back with its agents"


async def test_a_run_of_adks_path_may_wait_long_for_its_turn(own: Stage, monkeypatch):
    session = await own.session("talker")
    first = await own.start(session, "say " + " ".join(["word"] * 40), streaming=True)
    await own.first_text(first, "talker")
    asking = asyncio.create_task(own.ask(session, "say hi"))
    await until(lambda: units_of_work.read(Run.objects.count), lambda count: count == 2)

    monkeypatch.setattr(ownership, "UNASSIGNED_S", 0.0)
    assert await units_of_work.write(lifecycle.crash_orphans) == []

    status, _ = await asking
    assert status == 200
    statuses = await units_of_work.read(lambda: set(Run.objects.values_list("status", flat=True)))
    assert statuses == {Status.DONE}


async def test_a_run_of_adks_path_ends_with_the_process_its_caller_waits_for(own: Stage):
    nap = await own.block(await own.session("napper"))
    session = (await read_run(nap)).session
    asking = asyncio.create_task(own.ask(session, 'call nap {"seconds": 0}'))
    child = await own.supervisor.child("napper")

    async def is_asked() -> bool:
        return not child.unused.is_set()

    await until(is_asked, bool)
    await kill(own, nap)

    with pytest.raises(RuntimeUnavailable):
        await asking
    assert await units_of_work.read(Run.objects.filter(status__in=Run.ACTIVE).count) == 0
