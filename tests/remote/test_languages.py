"""The same agent on a synthetic server of each language gives the same events, state and responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, Run, Scope
from sessions_app.store.state import history as history
from tests.remote.conftest import connect_runtimes, serve_remote, start_run, the_session, wait_for_end
from tests.remote.synthetic_servers import START, Go, Java, JavaScript, Rust, Synthetic
from tests.web import serve

APP = "clerk@far"
SESSIONS = f"/apps/{APP}/users/ann/sessions"
LANGUAGES = (Go, Java, JavaScript, Rust)


def of_every_language(test: Any) -> Any:
    return pytest.mark.parametrize("language", LANGUAGES, ids=lambda server: f"synthetic {server.__name__}")(
        test
    )


def common_parts(event: dict[str, Any]) -> Any:
    """Return what of an event is the same in every language: its author, parts and delta."""
    parts = [{**part} for part in event["content"]["parts"]]
    return event["author"], parts, event["actions"]["stateDelta"]


CALL = {"functionCall": {"id": "c1", "name": "book", "args": {"city": "Oslo"}}}
ANSWER = {"functionResponse": {"id": "c1", "name": "book", "response": {"status": "ok"}}}
BOOKED = [
    ("user", [{"text": "book Oslo"}], {}),
    ("clerk", [CALL], {}),
    ("clerk", [ANSWER], {"city": "Oslo", "user:home": "Oslo"}),
    ("clerk", [{"text": "Done."}], {}),
]


@of_every_language
async def test_run_is_recorded_alike_in_every_language(web, language):
    remote: Synthetic = language()
    async with serve_remote(remote.app()) as runtimes:
        assert (await web.get("/list-apps")).json() == [APP]
        created = await web.post(SESSIONS, json={"sessionId": "s1", "state": {"n": 1}})
        assert (created.status_code, created.json()["state"]) == (200, {"n": 1}), created.text
        assert (created.json()["id"], created.json()["appName"]) == ("s1", APP)

        key = (await the_session()).pk
        run = await wait_for_end(await start_run(web, key, "book Oslo", streaming=True))
        assert (run.status, run.error) == ("done", "")
        assert run.invocation_id == remote.sessions["s1"].events[0]["invocationId"]
        assert (run.first_seq, run.last_seq) == (0, 4)

        session = (await web.get(f"{SESSIONS}/s1")).json()
        assert [common_parts(event) for event in session["events"]] == BOOKED
        assert [event["id"] for event in session["events"]] == [e["id"] for e in remote.sessions["s1"].events]
        assert session["state"] == {"n": 1, "city": "Oslo", "user:home": "Oslo"}
        assert START <= session["lastUpdateTime"] < START + 60
        assert [listed["id"] for listed in (await web.get(SESSIONS)).json()] == ["s1"]
        await runtimes.servers["far"].copies.wait_until_followed()
        row = await the_session()
        assert (row.mirrored.place, row.mirrored.behind) == (runtimes.servers["far"].http.url, "")


@pytest.mark.soak
@of_every_language
async def test_state_is_known_at_each_event_of_a_run(web, language):
    async with serve_remote(language().app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        session = await the_session()
        await wait_for_end(await start_run(web, session.pk, "book Oslo"))

        def city_at(seq: int) -> Any:
            event = Event.objects.get(session=session.pk, seq=seq)
            return history.state_at(session, event).values(Scope.SESSION).get("city")

        assert [await units_of_work.read(city_at, seq) for seq in (2, 3)] == [None, "Oslo"]


@pytest.mark.soak
@of_every_language
async def test_pending_call_is_answered_by_the_next_run(web, language):
    remote = language()
    async with serve_remote(remote.app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        key = (await the_session()).pk
        waiting = await wait_for_end(await start_run(web, key, "leave"))
        assert waiting.status == "waiting"
        answer = {"functionResponse": {"id": "c9", "name": "leave", "response": {"status": "granted"}}}
        answered = await wait_for_end(await start_run(web, key, {"role": "user", "parts": [answer]}))
        assert answered.status == "done"
        assert remote.run_bodies[-1]["newMessage"]["parts"] == [answer]
        assert (await wait_for_end(waiting.pk)).status == "done"


@pytest.mark.soak
@of_every_language
async def test_session_is_deleted_remotely_and_locally(web, language):
    remote = language()
    async with serve_remote(remote.app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        for _ in range(2):
            response = await web.delete(f"{SESSIONS}/s1")
            assert (response.status_code, response.json()) == (200, None), response.text
        assert remote.sessions == {}
        missing = await web.get(f"{SESSIONS}/s1")
        assert (missing.status_code, missing.json()["code"]) == (404, "session_not_found")


@pytest.mark.soak
@of_every_language
async def test_existing_session_id_is_not_overwritten(web, language):
    remote = language()
    async with serve_remote(remote.app()):
        await web.post(SESSIONS, json={"sessionId": "s1", "state": {"n": 1}})
        again = await web.post(SESSIONS, json={"sessionId": "s1", "state": {"n": 2}})
        assert (again.status_code, again.json()["detail"]) == (409, "Session already exists: s1")
        assert remote.sessions["s1"].state == {"n": 1}


@pytest.mark.parametrize("language", [Go, JavaScript], ids=["synthetic Go", "synthetic JavaScript"])
async def test_error_in_the_stream_fails_the_run(web, language):
    async with serve_remote(language().app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        run = await wait_for_end(await start_run(web, (await the_session()).pk, "fail"))
        assert (run.status, run.error_type, run.error) == ("failed", "RemoteError", "kaput")
        assert run.last_seq == 1  # the message is kept there, so it is here


async def test_broken_stream_fails_the_run(web):
    async with serve_remote(Java().app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        run = await wait_for_end(await start_run(web, (await the_session()).pk, "fail"))
        assert (run.status, run.error_type) == ("failed", "NotReached")
        assert "broke off its response" in run.error


async def test_key_removed_by_java_is_removed_locally(web):
    async with serve_remote(Java().app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        key = (await the_session()).pk
        await wait_for_end(await start_run(web, key, "book Oslo"))
        await wait_for_end(await start_run(web, key, "book nowhere"))
        session = (await web.get(f"{SESSIONS}/s1")).json()
        assert session["state"] == {"user:home": "nowhere"}
        assert "REMOVED" not in json.dumps(session)


async def test_go_gets_no_unknown_fields(web):
    remote = Go()
    async with serve_remote(remote.app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        key = (await the_session()).pk
        parts = [
            {"text": "hello"},
            {"inlineData": {"mimeType": "image/png", "data": "-_8"}},
            {"file_data": {"mime_type": "text/plain", "file_uri": "gs://a/b"}},
        ]
        message = {"role": "user", "parts": parts}
        run = await wait_for_end(
            await start_run(web, key, message, state_delta={"mood": "good"}, streaming=True)
        )
        assert run.status == "done", run.error
        body = remote.run_bodies[-1]
        assert (body["appName"], body["stateDelta"], body["streaming"]) == ("clerk", {"mood": "good"}, True)
        assert body["newMessage"]["parts"][1]["inlineData"]["data"] == "+/8="  # the alphabet that Go reads
        assert body["newMessage"]["parts"][2]["fileData"] == {"mimeType": "text/plain", "fileUri": "gs://a/b"}


async def test_unsupported_options_are_refused_before_the_run(web):
    remote = Go()
    async with serve_remote(remote.app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        key = (await the_session()).pk
        run = await wait_for_end(await start_run(web, key, "hello", run_config={"max_llm_calls": 3}))
        assert (run.status, run.error_type) == ("failed", "BadInput")
        assert "does not accept max_llm_calls" in run.error
        assert remote.run_bodies == []
        patched = await web.patch(f"{SESSIONS}/s1", json={"stateDelta": {"n": 1}})
        assert patched.status_code == 400
        assert "outside a run" in patched.json()["detail"]


@pytest.mark.soak
async def test_missing_times_of_go_become_arrival_times(web):
    async with serve_remote(Go().app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        key = (await the_session()).pk
        await wait_for_end(await start_run(web, key, "book Oslo"))

        def times() -> list[float]:
            return list(Event.objects.order_by("seq").values_list("timestamp", flat=True))

        before = await units_of_work.read(times)
        assert before == sorted(before)
        await web.get(f"{SESSIONS}/s1")
        assert await units_of_work.read(times) == before


@pytest.mark.soak
@of_every_language
async def test_closing_the_stream_cancels_as_adk_does(web, language):
    remote = language()
    async with serve_remote(remote.app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        run_id = await start_run(web, (await the_session()).pk, "wait", streaming=True)
        await remote.waits.wait()
        cancelled = await web.post(f"/api/v1/runs/{run_id}/cancel")
        assert cancelled.json()["status"] == "cancelled"
        await remote.went_away.wait()
        assert [event["author"] for event in remote.sessions["s1"].events] == ["user"]


async def test_runs_on_one_session_are_sequential(web):
    remote = JavaScript()
    async with serve_remote(remote.app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        key = (await the_session()).pk
        first = await start_run(web, key, "wait", streaming=True)
        second = await start_run(web, key, "hello")
        await remote.waits.wait()
        statuses = {run["id"]: run["status"] for run in (await web.get("/api/v1/runs")).json()["runs"]}
        assert statuses == {first: "running", second: "queued"}
        await web.post(f"/api/v1/runs/{first}/cancel")
        assert (await wait_for_end(second)).status == "done"


async def test_server_stop_cancels_active_run_with_reason(web):
    remote = JavaScript()
    async with serve_remote(remote.app()) as runtimes:
        await web.post(SESSIONS, json={"sessionId": "s1"})
        run_id = await start_run(web, (await the_session()).pk, "wait")
        await remote.waits.wait()
        row: Run = await units_of_work.read(Run.objects.select_related("runtime").get, pk=run_id)
        assert row.runtime_id == runtimes.servers["far"].runtime_id
    run = await wait_for_end(run_id)
    assert (run.status, run.error) == ("cancelled", "The server was stopped.")


async def test_a_run_is_cancelled_by_closing_its_stream(web):
    remote = Go()
    async with serve_remote(remote.app()):
        await web.post(SESSIONS, json={"sessionId": "s1"})
        run_id = await start_run(web, (await the_session()).pk, "wait", streaming=True)
        await remote.waits.wait()
        cancelled = await web.post(f"/api/v1/runs/{run_id}/cancel")
        assert cancelled.json()["status"] == "cancelled"
        await remote.went_away.wait()


async def test_queued_run_is_executed_by_the_next_web_process(web):
    remote = JavaScript()
    async with serve(remote.app(), server_header=False) as address:
        far = f"far=http://{address}"
        async with connect_runtimes(far):
            await web.post(SESSIONS, json={"sessionId": "s1"})
            key = (await the_session()).pk
            first_run = await start_run(web, key, "wait", streaming=True)
            await remote.waits.wait()
            waiting = await start_run(web, key, "book Oslo")
            second_run = await start_run(web, key, "book Rome")
        assert (await wait_for_end(first_run)).status == "cancelled"
        assert await units_of_work.read(statuses, [waiting, second_run]) == ["queued", "queued"]

        async with connect_runtimes("far=http://127.0.0.1:1"):
            assert await units_of_work.read(statuses, [waiting, second_run]) == ["queued", "queued"], (
                "it does not answer yet"
            )
        async with connect_runtimes(far):
            assert [(await wait_for_end(run)).status for run in (waiting, second_run)] == ["done", "done"]


async def test_queued_run_of_a_removed_app_fails_with_reason(web):
    remote = JavaScript()
    async with serve(remote.app(), server_header=False) as address:
        async with connect_runtimes(f"far=http://{address}"):
            await web.post(SESSIONS, json={"sessionId": "s1"})
            key = (await the_session()).pk
            first_run = await start_run(web, key, "wait", streaming=True)
            await remote.waits.wait()
            waiting = await start_run(web, key, "book Oslo")
        await wait_for_end(first_run)
        await units_of_work.write(AgentSession.objects.update, app_name="gone@far")
        async with connect_runtimes(f"far=http://{address}"):
            run = await wait_for_end(waiting)
    assert (run.status, run.error_type) == ("failed", "NotFound")
    assert "has no app 'gone'." in run.error


def statuses(run_ids: list[str]) -> list[str]:
    return [Run.objects.get(pk=run_id).status for run_id in run_ids]
