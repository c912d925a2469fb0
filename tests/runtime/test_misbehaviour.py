"""Misbehaving agents, and the effect on their runs and on others."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import httpx
import pytest

from sessions_app.agent_processes.process_output import LIMIT_BYTES
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import NotFound, RuntimeUnavailable
from sessions_app.store.models import Run, RuntimeProcess
from tests.patience import PATIENCE_S
from tests.runtime.conftest import (
    STAGE_APPS,
    Stage,
    adk_body,
    pid_of,
    read_events,
    read_run,
    until,
    wait_until_gone,
)

Status = Run.Status

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module")]


async def test_a_blocking_agent_holds_up_no_other_and_is_cancelled_alone(stage: Stage):
    napping = await stage.session("napper")
    nap = await stage.block(napping)

    assert (await stage.run(await stage.session("talker"), "say hi")).status == Status.DONE
    assert (await read_run(nap)).status == Status.RUNNING, "the other did not wait for its end"

    talk = await stage.start(await stage.session("talker"), "say " + " ".join(["word"] * 60), streaming=True)
    await stage.first_text(talk, "talker")
    await (await stage.supervisor.client("napper")).cancel_run(nap.pk)
    assert (await read_run(nap)).status == Status.CANCELLED
    assert (await stage.end_of(talk)).status == Status.DONE
    assert (await stage.run(napping, 'call nap {"seconds": 0}')).status == Status.DONE


@pytest.mark.soak
async def test_runs_crashed_by_a_cancellation_give_the_reason(stage: Stage):
    blocking, beside = await stage.session("napper"), await stage.session("napper")
    talk = await stage.start(beside, "say " + " ".join(["word"] * 20_000), streaming=True)
    await until(lambda: read_run(talk), lambda row: row.status == Status.RUNNING)
    nap = await stage.block(blocking)

    await (await stage.supervisor.client("napper")).cancel_run(nap.pk)

    assert (await read_run(nap)).status == Status.CANCELLED
    crashed = await stage.end_of(talk)
    assert crashed.status == Status.CRASHED
    assert nap.pk in crashed.error


async def test_runs_of_blocked_process_move_to_the_next_one(stage: Stage):
    blocking, waiting = await stage.session("napper"), await stage.session("napper")
    nap = await stage.block(blocking)
    queued = await stage.start(waiting, 'call nap {"seconds": 0}')
    assert (await read_run(queued)).status == Status.QUEUED

    await (await stage.supervisor.client("napper")).cancel_run(nap.pk)

    assert (await read_run(nap)).status == Status.CANCELLED
    assert (await stage.end_of(queued)).status == Status.DONE


async def test_a_killed_process_crashes_its_run_at_once(stage: Stage):
    session = await stage.session("talker")
    run = await stage.start(session, "say " + " ".join(["word"] * 600), streaming=True)
    await stage.first_text(run, "talker")
    reader = asyncio.create_task(stage.frames(run, "talker"))
    pid = await pid_of(stage, "talker")

    os.kill(pid, signal.SIGKILL)

    assert (await reader)[-1]["status"] == Status.CRASHED
    crashed = await read_run(run)
    assert (crashed.status, crashed.error_type) == (Status.CRASHED, "RuntimeCrashed")
    assert "signal 9" in crashed.error
    assert (
        await units_of_work.read(RuntimeProcess.objects.get, pk=crashed.runtime_id)
    ).stopped_at is not None
    assert (await stage.run(session, "say again")).status == Status.DONE
    assert await pid_of(stage, "talker") != pid


async def test_a_process_that_dies_while_it_answers_is_an_error_in_words(stage: Stage):
    session = await stage.session("trouble")

    with pytest.raises(RuntimeUnavailable, match="exit status 3"):
        await stage.ask(session, "call hard_exit")

    assert (await units_of_work.read(Run.objects.get, session=session)).status == Status.CRASHED


async def test_os_exit_crashes_the_run_and_the_next_one_works(stage: Stage):
    session = await stage.session("trouble")

    crashed = await stage.run(session, "call hard_exit")

    assert (crashed.status, "exit status 3" in crashed.error) == (Status.CRASHED, True)
    assert (await stage.run(session, "say hi")).status == Status.DONE


async def test_base_exception_fails_the_run(stage: Stage):
    session = await stage.session("trouble")

    failed = await stage.run(session, "call fail_badly {}")

    assert (failed.status, failed.error_type) == (Status.FAILED, "BaseExceptionGroup")
    assert "two at once" in failed.error
    assert (await stage.run(session, "say hi")).status == Status.DONE


async def test_error_with_lone_surrogate_is_sent_on_every_path(stage: Stage):
    session = await stage.session("trouble")

    failed = await stage.run(session, "call fail_in_half")
    status, answer = await stage.ask(session, "call fail_in_half")

    assert (failed.status, failed.error) == (Status.FAILED, "half \ufffd")
    assert (status, json.loads(answer)["detail"]) == (500, "ValueError: half \ufffd")


async def test_endless_thread_does_not_block_process_end(stage: Stage):
    session = await stage.session("trouble")
    pid = await pid_of(stage, "trouble")
    assert (await stage.run(session, "call leave_thread")).status == Status.DONE

    os.kill(pid, signal.SIGTERM)

    await wait_until_gone(pid)
    assert (await stage.run(session, "say hi")).status == Status.DONE


async def test_sys_exit_fails_the_run_and_leaves_the_process_alone(stage: Stage):
    session = await stage.session("trouble")
    pid = await pid_of(stage, "trouble")

    failed = await stage.run(session, "call soft_exit")

    assert (failed.status, failed.error_type) == (Status.FAILED, "AgentExited")
    assert failed.error == "The agent called sys.exit(4)."
    assert "in soft_exit" in failed.traceback
    assert (await stage.run(session, "say hi")).status == Status.DONE
    assert await pid_of(stage, "trouble") == pid


async def test_run_of_unloadable_agent_has_its_own_invocation(stage: Stage):
    session = await stage.session("broken")

    runs = [await stage.run(session, "say hi") for _ in range(2)]

    invocation_ids = [event.invocation_id for event in await read_events(session)]
    assert invocation_ids == [run.invocation_id for run in runs]
    assert len(set(invocation_ids)) == 2


async def test_agent_output_of_any_kind_is_harmless(stage: Stage):
    session = await stage.session("trouble")

    assert (await stage.run(session, "call print_much")).status == Status.DONE

    assert max(len(line) for line in await stage.wait_for_output("trouble | 1999")) < 10_000


async def test_output_of_an_agent_that_prints_60_mb_is_limited(stage: Stage):
    session = await stage.session("trouble")
    since = len(stage.lines)

    assert (await stage.run(session, "call flood")).status == Status.DONE

    await stage.wait_for_output("Output is limited", since)
    output_lines = [line for line in stage.lines[since:] if line.startswith("trouble | ")]
    assert sum(map(len, output_lines)) < 1.3 * LIMIT_BYTES, "with the app's name before each line"
    assert max(map(len, output_lines)) < 10_000


@pytest.mark.soak
async def test_a_fork_is_the_agents_own_business_and_ends_with_the_process(stage: Stage):
    session = await stage.session("trouble")
    pid = await pid_of(stage, "trouble")

    assert (await stage.run(session, "call fork")).status == Status.DONE
    assert (await stage.run(session, "call leave_behind")).status == Status.DONE

    texts = [
        json.loads(event.data)["content"]["parts"][0].get("text", "") for event in await read_events(session)
    ]
    started = [int(text.split("'")[3]) for text in texts if "answered" in text]
    assert len(started) == 2
    os.kill(pid, signal.SIGKILL)
    for child in started:
        await wait_until_gone(child)


async def test_a_forked_copy_that_comes_back_writes_nothing_twice(stage: Stage):
    session = await stage.session("trouble")

    assert (await stage.run(session, "call come_back")).status == Status.DONE

    assert [event.author for event in await read_events(session)] == ["user", "trouble", "trouble", "trouble"]
    assert (await stage.run(session, "say hi")).status == Status.DONE


async def test_forked_child_that_returns_sends_no_response(stage: Stage):
    """What the copy inherits, the web's connections among it, is the runtime's alone."""
    session = await stage.session("trouble")
    client = await stage.supervisor.client("trouble")
    over = asyncio.Event()

    async def keep_asking() -> int:
        count = 0
        while not over.is_set():
            answer = await client.call("GET", "/devui/health")
            assert answer["runtime_id"]
            count += 1
        return count

    asking = [asyncio.create_task(keep_asking()) for _ in range(4)]
    for _ in range(10):
        assert (await stage.run(session, "call come_back")).status == Status.DONE
    over.set()

    assert all(count > 10 for count in await asyncio.gather(*asking))


async def test_surviving_forked_child_keeps_no_response_open(stage: Stage):
    session = await stage.session("trouble")
    child = await stage.supervisor.child("trouble")
    reader, writer = await asyncio.open_unix_connection(str(child._listener.path))
    content = adk_body(session, "call fork")
    head = (
        f"POST /run HTTP/1.1\r\nHost: 127.0.0.1\r\nX-DevUI-Token: {child.config.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + content)

    answer = await asyncio.wait_for(reader.read(), PATIENCE_S / 2)

    assert answer.startswith(b"HTTP/1.1 200")
    writer.close()


async def test_process_refuses_requests_without_its_token(stage: Stage):
    await stage.health("talker")
    child = await stage.supervisor.child("talker")
    for headers in ({}, {"X-DevUI-Token": "guess"}):
        transport = httpx.AsyncHTTPTransport(uds=str(child._listener.path))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as stranger:
            for path in ("/devui/health", "/list-apps", "/run_sse"):
                answer = await stranger.get(path, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (403, "wrong_token")


async def test_an_app_that_does_not_exist_is_refused(stage: Stage):
    assert stage.supervisor.apps() == STAGE_APPS
    with pytest.raises(NotFound, match="No agent 'nobody'"):
        await stage.supervisor.client("nobody")


async def test_requests_sent_while_a_process_starts_wait_for_it(stage: Stage):
    answers = await asyncio.gather(*(stage.health("talker") for _ in range(5)))

    assert {answer["state"] for answer in answers} == {"ready"}
    assert len({answer["pid"] for answer in answers}) == 1
