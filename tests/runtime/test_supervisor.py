"""Processes of the supervisor: start, replacement after code changes, end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from devui.runtime.config import RuntimeOptions
from sessions_app.agent_processes import processes
from sessions_app.runs import lifecycle
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import RuntimeUnavailable
from sessions_app.store.models import AgentCard, Run, RuntimeProcess
from tests.runtime.conftest import Stage, is_running, pid_of, read_events, read_run, until, wait_until_gone

Status = Run.Status


@pytest.fixture
async def own(supervise) -> AsyncIterator[Stage]:
    """A stage of the test's own, whose agents it changes."""
    async with supervise() as opened:
        yield opened


@pytest.mark.parametrize("call", ["os._exit(7)", "import sys; sys.exit(7)"])
async def test_an_agent_that_exits_when_imported_is_listed_with_the_reason(own: Stage, agents_dir, call):
    (agents_dir / "talker" / "agent.py").write_text(f"import os\nprint('last words')\n{call}\n")
    run = await own.queue(await own.session("talker"), "say hi")

    with suppress(RuntimeUnavailable):
        await own.deliver(run)

    assert (await own.end_of(run)).status in {Status.FAILED, Status.CRASHED}
    card = await until(
        lambda: units_of_work.read(AgentCard.objects.filter(app_name="talker").first),
        lambda row: row is not None,
    )
    assert card.status == AgentCard.Status.FAILED
    error = json.loads(card.error)
    assert "7" in error["message"]
    assert await own.wait_for_output("talker | last words")


async def test_agent_folder_named_like_an_option_is_a_name(own: Stage, agents_dir):
    (agents_dir / "talker").rename(agents_dir / "-rf")
    assert "-rf" in own.supervisor.apps()

    failed = await own.run(await own.session("-rf"), "say hi")

    assert failed.status == Status.FAILED, "ADK loads no agent of such a name, and says so itself"
    assert "Invalid agent name: '-rf'" in failed.error
    assert is_running(await pid_of(own, "-rf"))


async def test_base_exception_during_import_fails_the_run(own: Stage, agents_dir):
    (agents_dir / "talker" / "agent.py").write_text("raise KeyboardInterrupt('odd')\n")

    with pytest.raises(RuntimeUnavailable, match="'talker' ended by itself"):
        await own.run(await own.session("talker"), "say hi")

    assert (await units_of_work.read(Run.objects.get)).status == Status.CRASHED
    card = await units_of_work.read(AgentCard.objects.get, app_name="talker")
    assert "KeyboardInterrupt: odd" in json.loads(card.error)["traceback"]


async def test_agent_error_with_lone_surrogate_is_shown(own: Stage, agents_dir):
    (agents_dir / "talker" / "agent.py").write_text("raise ValueError('half \\ud83d')\n")
    session = await own.session("talker")

    failed = await own.run(session, "say hi")

    assert failed.status == Status.FAILED
    assert failed.error.endswith("half \ufffd")
    status, answer = await own.ask(session, "say hi")
    assert (status, json.loads(answer)["code"]) == (500, "agent_not_loaded")
    assert "half \ufffd" in answer


GIVES_UP = """
import asyncio
from google.adk.agents import BaseAgent

class Agent(BaseAgent):
    async def _run_async_impl(self, ctx):
        raise asyncio.CancelledError("lost")
        yield

root_agent = Agent(name="talker")
"""
"""What libraries raise when a connection is lost: asyncio takes it for a task that somebody cancelled."""


async def test_cancellation_by_the_agent_fails_the_run(own: Stage, agents_dir):
    (agents_dir / "talker" / "agent.py").write_text(GIVES_UP)
    session = await own.session("talker")

    failed = await own.run(session, "say hi")

    assert (failed.status, failed.error_type) == (Status.FAILED, "AgentRaised")
    assert failed.error == "The agent raised CancelledError, but its run was not cancelled: lost"
    assert "in _run_async_impl" in failed.traceback
    status, answer = await own.ask(session, "say hi")
    assert (status, json.loads(answer)["detail"]) == (500, f"AgentRaised: {failed.error}")
    _, answer = await own.ask(session, "say hi", "/run_sse")
    assert failed.error in answer


async def test_process_with_invalid_response_is_ended(own: Stage, agents_dir):
    spoils = "from devui.runtime.host import RuntimeHost\nRuntimeHost.health = lambda self: 1 / 0\n"
    agent = agents_dir / "talker" / "agent.py"
    agent.write_text(spoils + agent.read_text())
    run = await own.queue(await own.session("talker"), "say hi")

    with suppress(RuntimeUnavailable):
        await own.deliver(run)

    crashed = await own.end_of(run)
    assert crashed.status == Status.CRASHED
    assert "ZeroDivisionError" in crashed.error


async def test_process_with_an_unusable_flag_reports_the_reason(supervise):
    async with supervise(options=RuntimeOptions(artifact_service_uri="foo://x")) as stage:
        session = await stage.session("talker")
        run = await stage.queue(session, "say hi")
        with suppress(RuntimeUnavailable):
            await stage.deliver(run)
        with pytest.raises(RuntimeUnavailable, match="--artifact_service_uri") as refusal:
            await stage.ask(session, "say hi")
        ended = await stage.end_of(run)
    assert "foo://x" in ended.error
    assert "once more" not in refusal.value.hint


async def test_changed_code_runs_in_new_process_while_old_one_finishes(own: Stage, agents_dir):
    session, other = await own.session("talker"), await own.session("talker")
    words = " ".join(["word"] * 40)
    old = await own.start(session, f"say {words}", streaming=True)
    await own.first_text(old, "talker")
    pid = await pid_of(own, "talker")
    source = agents_dir / "talker" / "agent.py"

    source.write_text(source.read_text().replace('name="talker"', 'name="renamed"'))
    new = await own.run(other, "say hi")

    assert [event.author for event in await read_events(other)] == ["user", "renamed"]
    assert new.code_version != (await read_run(old)).code_version
    assert (await own.end_of(old)).status == Status.DONE
    await wait_until_gone(pid)


@pytest.mark.soak
async def test_run_behind_one_of_old_code_waits_for_it(own: Stage, agents_dir):
    session = await own.session("talker")
    first = await own.start(session, "say " + " ".join(["word"] * 40), streaming=True)
    await own.first_text(first, "talker")
    (agents_dir / "talker" / "extra.py").write_text("")

    second = await own.run(session, "say hi")

    first = await read_run(first)
    assert (first.status, second.status) == (Status.DONE, Status.DONE)
    assert first.runtime_id != second.runtime_id
    assert second.started_at >= first.finished_at


@pytest.mark.soak
async def test_a_repaired_agent_works_without_a_restart(own: Stage, agents_dir):
    session = await own.session("broken")
    assert (await own.run(session, "say hi")).status == Status.FAILED

    (agents_dir / "broken" / "helper.py").write_text("KEY = 1\n")
    (agents_dir / "broken" / "agent.py").write_text((agents_dir / "talker" / "agent.py").read_text())

    assert (await own.run(session, "say hi")).status == Status.DONE
    card = await units_of_work.read(AgentCard.objects.get, app_name="broken")
    assert (card.status, card.error) == (AgentCard.Status.READY, "{}")


@pytest.mark.soak
async def test_a_save_starts_the_new_process_before_anybody_asks(own: Stage, agents_dir):
    await own.health("talker")
    started = RuntimeProcess.objects.exclude(server=None)
    old = await units_of_work.read(started.get)

    async def save() -> int:
        """Nobody says when the watcher is in place, so save until it sees one."""
        (agents_dir / "talker" / "extra.py").write_text(f"saved = {time.monotonic()}\n")
        await asyncio.sleep(0.5)
        return await units_of_work.read(started.exclude(pk=old.pk).count)

    await until(save, lambda count: count > 0)


@pytest.mark.soak
async def test_old_code_that_does_not_finish_is_ended_after_the_limit(supervise, agents_dir):
    async with supervise(drain=1.0) as stage:
        session = await stage.session("napper")
        run = await stage.block(session)
        (agents_dir / "napper" / "extra.py").write_text("")
        await stage.supervisor.client("napper")

        ended = await stage.end_of(run)

    assert ended.status == Status.CRASHED
    assert "its code has changed" in ended.error


@pytest.mark.soak
async def test_idle_process_is_ended_and_restarted_on_demand(supervise):
    async with supervise(idle=0.2, sweep=0.05) as stage:
        long = await stage.run(await stage.session("talker"), "say " + " ".join(["word"] * 30))
        assert long.status == Status.DONE, "it took longer than a process may be idle"
        await wait_until_gone(long.runtime.pid)

        run = await stage.run(await stage.session("talker"), "say hi")

        assert run.status == Status.DONE
        assert run.runtime.pid != long.runtime.pid


@pytest.mark.soak
async def test_only_the_newest_idle_processes_stay(supervise):
    async with supervise(max_idle=1, sweep=0.5) as stage:
        old = await pid_of(stage, "talker")
        new = await pid_of(stage, "napper")

        await wait_until_gone(old)

        assert is_running(new)


async def test_an_agent_that_never_finishes_loading_is_ended(supervise, agents_dir):
    (agents_dir / "talker" / "agent.py").write_text("import time\ntime.sleep(60)\n")
    async with supervise(start=1.0) as stage:
        run = await stage.queue(await stage.session("talker"), "say hi")
        with pytest.raises(RuntimeUnavailable, match="was not loaded within 1 s"):
            await stage.deliver(run)
        card = await units_of_work.read(AgentCard.objects.get, app_name="talker")

    assert (await read_run(run)).status == Status.CRASHED
    assert "was not loaded within 1 s" in json.loads(card.error)["message"]


async def test_heartbeats_of_a_process_that_starts_are_written_for_it(supervise, monkeypatch):
    monkeypatch.setattr(processes, "HEARTBEAT_S", 0.1)
    async with supervise() as stage:
        await stage.supervisor.client("talker")
        elsewhere = RuntimeProcess(id="p", host="elsewhere", pid=1, started_at=1.0, heartbeat_at=1.0)
        await units_of_work.write(elsewhere.save, force_insert=True)
        row = await units_of_work.read(RuntimeProcess.objects.get, app_name="talker")
        os.kill(row.pid, signal.SIGSTOP)  # before it has imported anything
        await until(
            lambda: units_of_work.read(RuntimeProcess.objects.get, pk=row.pk),
            lambda read: read.heartbeat_at > row.heartbeat_at,
        )


async def test_no_process_is_left_when_the_supervisor_ends(supervise):
    async with supervise() as stage:
        pids = [await pid_of(stage, app) for app in ("talker", "napper")]
        talk = await stage.start(await stage.session("talker"), "say " + " ".join(["word"] * 600))
        napping = await stage.session("napper")
        nap = await stage.block(napping)
        await until(lambda: read_run(talk), lambda row: row.status == Status.RUNNING)

    assert not any(is_running(pid) for pid in pids)
    stopped = await read_run(talk)
    assert (stopped.status, stopped.error_type) == (Status.CANCELLED, "ServerStopped")
    assert "was stopped" in stopped.error, "nobody asked for it, so the row says why"
    stopped = await read_run(nap)
    assert (stopped.status, stopped.error) == (Status.CRASHED, "The server was stopped.")
    assert await units_of_work.read(RuntimeProcess.objects.filter(stopped_at=None).count) == 0


async def test_orphaned_runs_are_marked_at_server_start(supervise, store):
    async with supervise() as stage:
        session = await stage.session("talker")
        run = await stage.queue(session, "say hi")
        dead = await units_of_work.write(processes.register, "dead", "talker", 2**22 + 1, "v1")
        await units_of_work.write(lifecycle.assign, run.pk, dead.pk)
        await units_of_work.write(lifecycle.claim, run.pk, dead.pk, "v1")

    async with supervise():
        assert (await read_run(run)).status == Status.CRASHED


async def test_a_server_forgets_processes_that_ended_long_ago_when_it_starts(supervise, store):
    for number in range(2 * processes.BATCH + 1):
        await units_of_work.write(processes.register, f"old-{number}", "talker", 1, "v1")
    await units_of_work.write(RuntimeProcess.objects.update, stopped_at=1.0)

    async with supervise():
        old = RuntimeProcess.objects.filter(app_name="talker")
        await until(lambda: units_of_work.read(old.count), lambda count: count == 0)
