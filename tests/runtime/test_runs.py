"""Runs in real processes: rows, frames, errors."""

from __future__ import annotations

import asyncio
import json

import pytest

from devui.runtime import endpoints
from sessions_app.agents import cards
from sessions_app.runs import lifecycle
from sessions_app.store import events
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import NotFound, RuntimeUnavailable
from sessions_app.store.models import AgentCard, AgentSession, Run
from sessions_app.store.runs import session_runs
from tests.runtime.conftest import JSON, Stage, adk_body, opened_stage, read_events, read_run, until

Status = Run.Status

pytestmark = pytest.mark.asyncio(loop_scope="module")


def texts(frames: list[dict]) -> str:
    return "".join(frame["text"] for frame in frames if frame["type"] == "chunk")


async def test_run_executes_and_streams_text(stage: Stage):
    session = await stage.session("talker")
    run = await stage.start(session, "say one two three", streaming=True)

    frames = await stage.frames(run, "talker")

    assert texts(frames)
    assert "one two three ".startswith(texts(frames))  # the stored event may overtake the last chunk
    assert [frame["status"] for frame in frames if frame["type"] == "status"] == ["queued", "running", "done"]
    assert frames[-1] == {"n": frames[-1]["n"], "type": "end", "status": "done"}
    stored = [frame for frame in frames if frame["type"] == "stored"]
    assert [(frame["seq"], frame["author"]) for frame in stored] == [(1, "user"), (2, "talker")]
    ended = await stage.end_of(run)
    assert (ended.status, ended.first_seq, ended.last_seq) == (Status.DONE, 0, 2)
    assert ended.invocation_id == (await read_events(session))[0].invocation_id
    assert ended.code_version == ended.runtime.code_version != ""


async def test_without_streaming_nothing_is_streamed(stage: Stage):
    session = await stage.session("talker")
    run = await stage.start(session, "say one two")
    assert texts(await stage.frames(run, "talker")) == ""


async def test_streaming_run_can_be_followed_later(stage: Stage):
    session = await stage.session("talker")
    words = " ".join(f"w{n}" for n in range(40))
    run = await stage.start(session, f"say {words}", streaming=True)
    text = await stage.first_text(run, "talker")

    frames = await stage.frames(run, "talker")

    assert texts(frames).startswith(text)
    assert words.startswith(texts(frames).strip())
    assert frames[-1]["status"] == Status.DONE


async def test_run_continues_without_listeners(stage: Stage):
    session = await stage.session("talker")
    run = await stage.start(session, "say one two three", streaming=True)
    await stage.first_text(run, "talker")

    assert (await stage.end_of(run)).status == Status.DONE
    assert [event.author for event in await read_events(session)] == ["user", "talker"]


async def test_runs_on_one_session_are_sequential(stage: Stage):
    session = await stage.session("talker")
    runs = [await stage.queue(session, f"say run {n}") for n in range(4)]

    await asyncio.gather(*(stage.deliver(run) for run in reversed(runs)))
    ended = [await stage.end_of(run) for run in runs]

    assert [run.status for run in ended] == [Status.DONE] * 4
    assert [(run.first_seq, run.last_seq) for run in ended] == [(0, 2), (2, 4), (4, 6), (6, 8)]


async def test_runs_on_different_sessions_run_side_by_side(stage: Stage):
    sessions = [await stage.session("talker") for _ in range(2)]
    words = " ".join(f"w{n}" for n in range(20))
    runs = [await stage.start(session, f"say {words}", streaming=True) for session in sessions]

    first, second = [await stage.end_of(run) for run in runs]

    assert first.started_at < second.finished_at
    assert second.started_at < first.finished_at


async def test_failed_run_has_traceback_in_its_session(stage: Stage):
    session = await stage.session("trouble")

    run = await stage.run(session, "call fail")

    assert (run.status, run.error_type, run.error) == (Status.FAILED, "ZeroDivisionError", "nothing to share")
    assert "in fail" in run.traceback
    assert 'raise ZeroDivisionError("nothing to share")' in run.traceback
    last = (await read_events(session))[-1]
    assert (last.kind, last.author, last.seq) == ("error", "trouble", run.last_seq)
    assert json.loads(last.data)["errorCode"] == "ZeroDivisionError"
    assert [event.kind for event in await read_events(session)].count("error") == 1, "ADK told of it already"
    assert (await stage.run(session, "say again")).status == Status.DONE


async def test_error_with_status_is_reported_once(stage: Stage):
    session = await stage.session("trouble")

    run = await stage.run(session, "call fail_overloaded")

    assert (run.status, run.error_type) == (Status.FAILED, "Overloaded")
    errors = [event for event in await read_events(session) if event.kind == "error"]
    assert [json.loads(event.data)["errorCode"] for event in errors] == ["RESOURCE_EXHAUSTED"]
    assert (await units_of_work.read(AgentSession.objects.get, pk=session.pk)).error_count == 1


async def test_error_of_run_is_stored_and_sent_without_credentials(stage: Stage):
    session, line_count = await stage.session("trouble"), len(stage.lines)

    run = await stage.run(session, "call fail_with_key")
    _, answer = await stage.ask(session, "call fail_with_key", "/run_sse")

    message = "429: quota of [redacted] is used up (https://models.test/v1?token=[redacted])"
    assert run.error == message
    events = [json.loads(event.data) for event in await read_events(session)]
    assert [event["errorMessage"] for event in events if "errorMessage" in event] == [message, message]
    log = await stage.wait_for_output("PermissionError", since=line_count)
    for text in (run.traceback, answer, json.dumps(events), *log):
        assert "AIzaSyD" not in text
        assert "s3cr3t" not in text


async def test_agent_error_is_one_line_in_the_log(stage: Stage):
    line_count = len(stage.lines)

    await stage.run(await stage.session("trouble"), "call fail")

    lines = await stage.wait_for_output("ZeroDivisionError", since=line_count)
    assert not any("Traceback" in line for line in lines)


async def test_a_run_config_that_cannot_be_is_a_failed_run(stage: Stage):
    session = await stage.session("talker")

    run = await stage.run(session, "say hi", run_config={"max_llm_cals": 3})

    assert (run.status, run.error_type) == (Status.FAILED, "ValidationError")
    assert "max_llm_cals" in run.error


async def test_run_that_cannot_start_fails_in_its_turn(stage: Stage):
    session = await stage.session("talker")
    words = " ".join(f"w{n}" for n in range(60))
    speaking = await stage.start(session, f"say {words}", streaming=True)
    await stage.first_text(speaking, "talker")

    wrong = await stage.run(session, "say hi", run_config={"max_llm_cals": 3})

    ended = await stage.end_of(speaking)
    assert (ended.status, ended.error, wrong.status) == (Status.DONE, "", Status.FAILED)
    events = await read_events(session)
    assert [event.kind == "error" for event in events] == [False, False, True]
    assert [event.invocation_id for event in events] == [ended.invocation_id] * 2 + [wrong.invocation_id]
    assert (wrong.first_seq, wrong.last_seq) == (ended.last_seq, events[-1].seq)


async def test_the_limit_of_model_calls_ends_a_run_by_its_own_error(stage: Stage):
    session = await stage.session("trouble")

    run = await stage.run(session, "call print_much", run_config={"max_llm_calls": 1})

    assert (run.status, run.error_type) == (Status.FAILED, "LlmCallsLimitExceededError")


async def test_a_long_running_call_leaves_the_run_waiting(stage: Stage):
    session = await stage.session("patient")

    run = await stage.run(session, 'call ask_boss {"what": "leave"}')

    assert run.status == Status.WAITING
    call_id = (await units_of_work.read(session_runs.open_call_ids, session.pk, run.invocation_id))[0]
    answer = {"id": call_id, "name": "ask_boss", "response": {"status": "yes"}}
    message = {"role": "user", "parts": [{"functionResponse": answer}]}
    answered = await units_of_work.write(lifecycle.create_run, session.pk, {"new_message": message})
    await stage.deliver(answered)
    assert (await stage.end_of(answered)).status == Status.DONE


async def test_a_state_delta_and_metadata_travel_with_the_message(stage: Stage):
    session = await stage.session("talker")

    await stage.run(session, "say hi", state_delta={"tone": "dry"}, custom_metadata={"ticket": 7})

    first = json.loads((await read_events(session))[0].data)
    assert first["actions"]["stateDelta"] == {"tone": "dry"}
    assert first["customMetadata"] == {"ticket": 7}


async def test_agent_import_error_has_its_location(stage: Stage):
    health = await stage.health("broken")

    assert health["state"] == "failed"
    error = health["error"]
    assert (error["type"], error["file"], error["line"]) == (
        "KeyError",
        str(stage.supervisor.folder.root / "broken" / "helper.py"),
        2,
    )
    assert error["traceback"].startswith("Traceback (most recent call last)")
    assert "agent_loader" not in error["traceback"]
    card = await units_of_work.read(AgentCard.objects.get, app_name="broken")
    assert (card.status, json.loads(card.error)["line"]) == (AgentCard.Status.FAILED, 2)


async def test_other_agents_work_beside_broken_one(stage: Stage):
    broken, talking = await stage.session("broken"), await stage.session("talker")

    failed, done = await asyncio.gather(stage.run(broken, "say hi"), stage.run(talking, "say hi"))

    assert (failed.status, failed.error_type, done.status) == (Status.FAILED, "KeyError", Status.DONE)
    assert [event.kind for event in await read_events(broken)] == ["error"]


async def test_every_run_of_a_broken_agent_has_the_same_error(stage: Stage):
    session = await stage.session("broken")

    first, second = [await stage.run(session, "say hi") for _ in range(2)]

    assert first.traceback.splitlines()[-1].startswith("KeyError: ")
    assert first.traceback == second.traceback


async def test_an_agent_that_was_loaded_is_described(stage: Stage):
    await stage.health("talker")

    card = await units_of_work.read(AgentCard.objects.get, app_name="talker")

    assert card.status == AgentCard.Status.READY
    tree = json.loads(card.description)
    assert (tree["name"], tree["description"], tree["model"]) == ("talker", "Says what it is told.", "acting")


async def test_a_nested_agent_is_run_with_its_env_file(stage: Stage):
    session = await stage.session("group.inner")

    run = await stage.run(session, "say hi")

    assert run.status == Status.DONE
    tree = await units_of_work.read(cards.read_description, "group.inner")
    assert (tree["description"], tree["app"]["is_app"]) == ("good evening", True)


async def test_an_agent_written_in_yaml_is_loaded(stage: Stage):
    assert (await stage.health("written"))["state"] == "ready"

    tree = await units_of_work.read(cards.read_description, "written")
    assert (tree["name"], tree["description"], tree["instruction"]) == (
        "written",
        "Written in YAML.",
        "Be brief.",
    )


async def test_missing_eval_run_does_not_affect_the_process(stage: Stage):
    client = await stage.supervisor.client("talker")
    before = await stage.health("talker")

    await client.call("POST", "/devui/evals", {"eval_run_id": "none"})

    after = await until(lambda: stage.health("talker"), lambda health: health["active_runs"] == 0)
    assert after == before
    assert not [line for line in stage.lines if "Eval run none" in line]
    assert (await stage.run(await stage.session("talker"), "say hi")).status == Status.DONE


async def test_refusal_of_the_process_is_passed_on(stage: Stage):
    client = await stage.supervisor.client("talker")
    with pytest.raises(NotFound, match="No run 'none'"):
        await client.call("POST", "/devui/runs", {"run_id": "none"})
    with pytest.raises(RuntimeUnavailable, match="could not be loaded"):
        await (await stage.supervisor.client("broken")).call(
            "POST", "/devui/seen", {"user_id": "ann", "session_id": "s1"}
        )


async def test_cancelling_a_run_that_listens_ends_it_and_nothing_else(stage: Stage):
    session, other = await stage.session("talker"), await stage.session("talker")
    words = " ".join(["word"] * 600)
    run = await stage.start(session, f"say {words}", streaming=True)
    beside = await stage.start(other, "say one two three four five")
    await stage.first_text(run, "talker")

    client = await stage.supervisor.client("talker")
    await client.cancel_run(run.pk)

    assert (await read_run(run)).status == Status.CANCELLED
    assert (await stage.end_of(beside)).status == Status.DONE
    closing = json.loads((await read_events(session))[-1].data)
    assert closing["errorCode"] == events.ABORTED
    assert (await stage.frames(run, "talker"))[-1]["status"] == Status.CANCELLED
    assert (await stage.run(session, "say again")).status == Status.DONE


async def test_cancelling_a_queued_run_takes_it_out_of_the_queue(stage: Stage):
    session = await stage.session("talker")
    words = " ".join(["word"] * 60)
    running = await stage.start(session, f"say {words}")
    queued = await stage.start(session, "say never")

    await (await stage.supervisor.client("talker")).cancel_run(queued.pk)

    assert (await read_run(queued)).status == Status.CANCELLED
    assert (await stage.end_of(running)).status == Status.DONE
    assert (await stage.run(session, "say after")).first_seq == 2


async def test_a_run_of_another_server_is_cancelled_through_the_store(stage: Stage, tmp_path):
    session = await stage.session("talker")
    run = await stage.start(session, "say " + " ".join(["word"] * 1000), streaming=True)
    await stage.first_text(run, "talker")

    async with opened_stage(stage.supervisor.folder.root, tmp_path) as other:
        assert other.supervisor.find_child((await read_run(run)).runtime_id) is None
        await (await other.supervisor.client("talker")).cancel_run(run.pk)

    assert (await read_run(run)).status == Status.CANCELLED


async def test_cancelling_a_run_that_has_ended_changes_nothing(stage: Stage):
    run = await stage.run(await stage.session("talker"), "say hi")

    await (await stage.supervisor.client("talker")).cancel_run(run.pk)

    assert (await read_run(run)).status == Status.DONE


async def test_disconnecting_adk_client_cancels_its_run(stage: Stage):
    session = await stage.session("talker")
    client = await stage.supervisor.client("talker")
    body = adk_body(session, "say " + " ".join(["word"] * 600), streaming=True)

    async with client.open("POST", "/run_sse", headers=JSON, content=body) as answer:
        async for chunk in answer.aiter_raw():
            if b'"partial":true' in chunk:
                break

    run = await stage.end_of(await units_of_work.read(Run.objects.get, session=session))
    assert (run.status, run.source) == (Status.CANCELLED, "adk")


async def test_answer_to_unknown_call_is_refused_with_reason(stage: Stage):
    session = await stage.session("talker")
    answer = {"functionResponse": {"id": "c9", "name": "nothing", "response": {}}}
    status, text = await stage.ask(session, answer)
    body = json.loads(text)
    assert (status, body["code"]) == (500, "unknown_call")
    assert body["detail"].startswith(f"ValueError: {endpoints.UNKNOWN_CALL}")
    assert "c9" in body["detail"]
    assert "functionCall.id" in body["hint"]
