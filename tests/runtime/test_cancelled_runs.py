"""Events of a cancelled run: the streamed text, no error, and no open call."""

from __future__ import annotations

import asyncio
import json

import pytest
from google.adk.events._abort_events import _build_abort_events, _is_abort_event
from google.adk.events.event import Event

from sessions_app.store import events as wire
from sessions_app.store.database import units_of_work
from sessions_app.store.events import EventKind, event_text
from sessions_app.store.models import AgentSession, ModelCall, Run, Trace
from sessions_app.timeline import inspector
from sessions_app.traces import model_calls
from tests.runtime.conftest import Stage, adk_body, read_events, read_run, until

Status = Run.Status

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = "say " + " ".join(["word"] * 600)


async def cancel_run(stage: Stage, session: AgentSession) -> Run:
    """Cancel a run in the middle of its answer."""
    run = await stage.start(session, WORDS, streaming=True)
    await stage.first_text(run, "talker")
    await (await stage.supervisor.client("talker")).cancel_run(run.pk)
    return await stage.end_of(run)


async def nothing_open(session: AgentSession) -> Trace:
    """Wait until nothing of a session's traces is open, and return the last trace."""

    def look() -> tuple[bool, bool]:
        traces, calls = Trace.objects.filter(session=session), ModelCall.objects.filter(session=session)
        is_open = traces.filter(finished_at=None).exists() or calls.filter(finished_at=None).exists()
        return traces.exists(), is_open

    await until(lambda: units_of_work.read(look), lambda row: row == (True, False))
    return await units_of_work.read(Trace.objects.filter(session=session).latest, "pk")


async def test_cancel_keeps_streamed_text_and_is_no_error(stage: Stage):
    session = await stage.session("talker")
    run = await cancel_run(stage, session)

    closing = (await read_events(session))[-1]
    summary, body = json.loads(closing.summary), json.loads(closing.data)
    assert (run.status, run.error_type, closing.kind) == (Status.CANCELLED, "", EventKind.AGENT)
    assert body["errorCode"] == wire.ABORTED
    assert summary["text"].startswith("word ")
    assert summary["flags"] == ["cancelled", "partial answer"]
    assert "error" not in summary
    assert "content" not in body, "models are given content"
    [answer] = body["customMetadata"][wire.PARTIAL_ANSWER]
    assert (answer["author"], answer["parts"]) == ("talker", [{"text": summary["text"]}])
    stored_session = await units_of_work.read(AgentSession.objects.get, pk=session.pk)
    assert (stored_session.error_count, stored_session.last_text) == (0, summary["text"].strip())

    details = await units_of_work.read(inspector.inspect_event, stored_session, closing)
    assert [part.type for part in details.parts] == ["text"]
    assert not details.item.is_error
    assert not details.item.is_final
    assert details.item.text == summary["text"]


async def test_cancelled_text_is_not_sent_to_the_model(stage: Stage):
    session = await stage.session("talker")
    await cancel_run(stage, session)
    assert (await stage.run(session, "say again")).status == Status.DONE

    await nothing_open(session)
    model_call = await units_of_work.read(ModelCall.objects.filter(session=session).latest, "pk")
    contents = (await units_of_work.read(model_calls.request_json, model_call))["contents"]
    assert [content["role"] for content in contents] == ["user", "user"]
    assert contents[-1]["parts"][0]["text"] == "say again"


async def test_a_cancelled_run_has_nothing_open(stage: Stage):
    session = await stage.session("talker")
    run = await cancel_run(stage, session)
    trace = await nothing_open(session)
    assert trace.started_at <= trace.finished_at <= run.finished_at + 60


async def test_abandoned_run_leaves_nothing_open(stage: Stage):
    session = await stage.session("talker")
    client = await stage.supervisor.client("talker")
    body = adk_body(session, WORDS, streaming=True)
    async with client.open(
        "POST", "/run_sse", headers={"Content-Type": "application/json"}, content=body
    ) as stream:
        await anext(stream.aiter_text())
    run = await until(
        lambda: units_of_work.read(Run.objects.filter(session=session).first),
        lambda run: run.status not in Run.ACTIVE,
    )
    assert run.status == Status.CANCELLED
    await nothing_open(session)


@pytest.mark.parametrize("how", ["cancelled", "crashed"])
async def test_run_of_ended_process_leaves_nothing_open(stage: Stage, how: str):
    session = await stage.session("napper")
    run = await stage.block(session)
    await until(lambda: units_of_work.read(Trace.objects.filter(session=session).exists), bool)
    client = await stage.supervisor.client("napper")
    if how == "cancelled":
        await client.cancel_run(run.pk)
    else:
        await stage.supervisor.end_process((await read_run(run)).runtime_id, "It was killed.")
    ended = await stage.end_of(run)

    trace = await nothing_open(session)
    assert ended.status == how
    assert trace.decoded_stages[-1][0] == "cut off"
    assert trace.finished_at == ended.finished_at


async def test_closing_event_of_cancelled_invocation_is_no_error():
    call = Event.model_validate(
        {
            "author": "talker",
            "invocationId": "i",
            "content": {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "nap", "args": {}}}]},
        }
    )
    for events, kind in (([], EventKind.CONTROL), ([call], EventKind.TOOL_RESULT)):
        [closing] = _build_abort_events(events, invocation_id="i", root_agent_name="talker", branch=None)
        assert _is_abort_event(closing)
        record = wire.build_record(closing.model_dump(mode="json", by_alias=True, exclude_none=True))
        assert (record.kind, record.is_error) == (kind, False)
        assert event_text.summary_errors(json.loads(record.summary)) == []


async def test_streamed_text_of_several_agents_is_kept_by_author():
    from sessions_app.adk.partial_answers import StreamedAnswers

    def answer_of(author, text, *, partial=True, thought=False, code=None):
        content = {"role": "model", "parts": [{"text": text, "thought": thought}]} if text else None
        return Event(
            author=author, partial=partial, content=content, error_code=code, branch=f"root.{author}"
        )

    streams = StreamedAnswers()
    streams.note(answer_of("done", "whole "))
    streams.note(answer_of("done", "whole answer", partial=False))
    for text, thought in (("hm", True), ("m", True), ("It ", False), ("is", False)):
        streams.note(answer_of("left", text, thought=thought))
    streams.note(answer_of("right", "Sunny"))
    closing = answer_of("root", "", partial=False, code=wire.ABORTED)
    streams.note(closing)
    assert closing.custom_metadata == {
        wire.PARTIAL_ANSWER: [
            {
                "author": "left",
                "branch": "root.left",
                "parts": [{"text": "hmm", "thought": True}, {"text": "It is"}],
            },
            {"author": "right", "branch": "root.right", "parts": [{"text": "Sunny"}]},
        ]
    }
    again = answer_of("root", "", partial=False, code=wire.ABORTED)
    streams.note(again)
    assert again.custom_metadata is None


async def test_a_cancelled_attempt_has_nothing_open(stage: Stage):
    """As `run_evals` does: a task is cancelled, and ADK tells plug-ins nothing."""
    from google.adk.apps import App
    from google.adk.runners import Runner

    from sessions_app.adk import DjangoSessionService, Recorder
    from tests.evals import agents

    started = asyncio.Event()

    async def answer(ctx, text):
        started.set()
        await asyncio.sleep(3600)

    agent = agents.Scripted(name="hangs", answer=answer)
    runner = Runner(
        app=App(name="hanging", root_agent=agent, plugins=[Recorder()]),
        session_service=DjangoSessionService(),
        auto_create_session=True,
    )

    async def drive() -> None:
        from google.genai import types

        message = types.Content(role="user", parts=[types.Part(text="go")])
        async for _ in runner.run_async(user_id="ann", session_id="s", new_message=message):
            pass

    task = asyncio.create_task(drive())
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    session = await units_of_work.read(AgentSession.objects.get, app_name="hanging")
    assert (await nothing_open(session)).decoded_stages[-1][0] == "cut off"
