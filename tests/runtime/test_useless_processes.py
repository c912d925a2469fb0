"""A process that nothing reaches, or that answers nothing, is replaced, and waiting runs go on in the next one."""

from __future__ import annotations

import pytest

from sessions_app.runs import agent_loading, runtime_client
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentCard, Run
from tests.runtime.conftest import Stage, is_running, pid_of, read_run, until, wait_until_gone

Status = Run.Status

pytestmark = pytest.mark.soak

QUICK = {"sweep": 0.2, "cancel": 0.2, "silence": 0.4, "take": 0.1}
"""Limits in seconds with which a silent process is ended soon."""


async def lose_socket(stage: Stage) -> int:
    """Let an agent close its process's socket; return the pid."""
    pid = await pid_of(stage, "trouble")
    await stage.start(await stage.session("trouble"), "call close_descriptors")
    child = stage.supervisor._current["trouble"]
    await until(child.accepts_connections, lambda accepts: not accepts)
    return pid


async def test_run_goes_to_next_process_if_the_first_has_lost_its_socket(supervise):
    async with supervise() as stage:
        pid = await lose_socket(stage)
        ended = await stage.run(await stage.session("trouble"), "say hi")
        assert (ended.status, ended.error) == (Status.DONE, "")
        assert not is_running(pid)


async def test_adks_path_and_pages_reach_the_next_process_at_the_second_try(supervise):
    async with supervise() as stage:
        await lose_socket(stage)
        with pytest.raises(runtime_client.RuntimeUnavailable, match="does not answer") as refusal:
            await stage.ask(await stage.session("trouble"), "say hi")
        assert "Send it again: a new process will be started" in refusal.value.hint
        status, _ = await stage.ask(await stage.session("trouble"), "say hi")
        assert status == 200


async def test_process_that_loses_its_socket_again_and_again_is_given_up(supervise, agents_dir):
    (agents_dir / "talker" / "agent.py").write_text(
        "import os, time\nos.closerange(3, 400)\ntime.sleep(1000)\n"
    )
    async with supervise() as stage:
        run = await stage.start(await stage.session("talker"), "say hi")
        assert (await stage.end_of(run)).status in {Status.FAILED, Status.CRASHED}


async def block(stage: Stage) -> int:
    """Let an agent block its process after its run has ended; return the pid."""
    ended = await stage.run(await stage.session("trouble"), "call block_later")
    assert ended.status == Status.DONE
    await stage.wait_for_output("blocks")
    return int((await read_run(ended)).runtime.pid)


async def test_blocked_process_without_a_run_is_ended_and_the_waiting_run_goes_on(supervise):
    async with supervise(**QUICK) as stage:
        pid = await block(stage)
        run = await stage.start(await stage.session("trouble"), "say hi")
        assert (await stage.end_of(run)).status == Status.DONE
        await wait_until_gone(pid)


async def test_blocked_process_that_nobody_asks_is_ended_when_it_is_idle(supervise):
    async with supervise(**QUICK, idle=3) as stage:
        await wait_until_gone(await block(stage))


async def test_process_whose_run_blocks_it_is_left_alone(supervise):
    async with supervise(**QUICK) as stage:
        nap = await stage.start(await stage.session("napper"), 'call nap {"seconds": 4}')
        await stage.wait_for_output("naps")
        behind = await stage.start(await stage.session("napper"), "say hi")
        assert [(await stage.end_of(run)).status for run in (nap, behind)] == [Status.DONE] * 2


async def test_restart_ends_the_process_and_waiting_runs_go_on(supervise):
    async with supervise(take=0.1) as stage:
        runtime_client.register(stage.supervisor)
        try:
            nap = await stage.block(await stage.session("napper"))
            waiting = await stage.start(await stage.session("napper"), "say hi")
            await agent_loading.restart_agent("napper")
        finally:
            runtime_client.register(None)
        crashed = await read_run(nap)
        assert (crashed.status, "a person restarted" in crashed.error) == (Status.CRASHED, True)
        assert (await stage.end_of(waiting)).status == Status.DONE
        card = await units_of_work.read(AgentCard.objects.get, app_name="napper")
        assert card.status == AgentCard.Status.READY
