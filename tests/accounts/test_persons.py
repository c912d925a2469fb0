"""Runs, edits, notes and labels show the person who made them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from evals_app.models import EvalAttempt, EvalRun
from sessions_app.api import live
from sessions_app.runs.runtime_client import PERSON_HEADER, Sender
from sessions_app.store.models import AgentSession, Event, Run, SessionTag, StateChange
from tests.accounts.conftest import cookie_of
from tests.api.builders import append, create
from tests.evals import builders, stored_runs
from tests.evals.form_filling import fields_of
from tests.pages.html import parse

pytestmark = pytest.mark.usefixtures("people", "agents_dir")


async def test_runs_of_pages_and_api_store_and_show_their_person(runner, runtime):
    session = await create()
    await runner.post(f"/runs/start/{session.pk}/", data={"message": "hello"})
    run = (await runner.post("/api/v1/runs", json={"session": session.pk, "message": "again"})).json()
    assert run["person"] == "runner"
    assert await sync_to_async(lambda: set(Run.objects.values_list("person", flat=True)))() == {"runner"}
    page = parse((await runner.get("/runs/")).content)
    assert {cell.one("bdi").text for cell in page.all("td", data_label="Source")} == {"runner"}
    page = parse((await runner.get(f"/sessions/id/{session.pk}/", follow_redirects=True)).content)
    shown = page.one("ul", class_="runs").all("span", class_="person")
    assert [person.one("bdi").text for person in shown] == ["runner"] * 2


async def test_forwarded_requests_name_their_person_and_clients_cannot(runner, runtime):
    await create()
    body = {
        "appName": "weather",
        "userId": "ann",
        "sessionId": "s1",
        "newMessage": {"parts": [{"text": "x"}]},
    }
    for path in ("/run", "/run_sse"):
        await runner.post(path, json=body, headers={PERSON_HEADER: "admin"})
    assert [headers[PERSON_HEADER] for headers in runtime.headers] == ["runner", "runner"]


async def test_live_runs_name_their_person(runtime):
    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        pass

    scope = {"query_string": b"app_name=weather&user_id=ann&session_id=s1", "devui_person": "an na"}
    await live.run_live(scope, receive, send)
    assert [Sender.of(headers).person for headers in runtime.headers] == ["an na"]


async def test_timeline_names_the_sender_of_a_message(runner):
    session = await create()
    await append(session, "e1")

    def send() -> None:
        Event.objects.filter(event_id="e1").update(author="user")
        Run.objects.create(
            id="r1", session=session, person="ben", status="done", invocation_id="i1", first_seq=0,
            last_seq=1, created_at=1.0,
        )  # fmt: skip

    await sync_to_async(send)()
    page = parse((await runner.get(f"/sessions/id/{session.pk}/", follow_redirects=True)).content)
    event = page.one("article", data_event_id="e1")
    assert event.one("span", class_="person").one("bdi").text == "ben"


async def test_edits_of_state_and_rewinds_show_their_person(runner):
    session = await create(initial={"city": "Oslo"})
    await append(session, "e1", {"city": "Rome"})
    path = f"/api/v1/sessions/{session.pk}"
    edited = await runner.put(f"{path}/state/key?key=city", json={"value": "Bern"})
    assert edited.status_code == 200, edited.text
    await runner.patch("/apps/weather/users/ann/sessions/s1", json={"stateDelta": {"city": "Lima"}})
    await runner.delete(f"{path}/state/key?key=city")
    await runner.post(f"{path}/rewind", json={"before_invocation": "i1"})
    summaries = await sync_to_async(
        lambda: list(Event.objects.order_by("seq").values_list("summary", flat=True))
    )()
    assert [json.loads(text).get("person") for text in summaries] == [None, *["runner"] * 4]
    names = await sync_to_async(
        lambda: list(StateChange.objects.order_by("position").values_list("writer_name", flat=True))
    )()
    assert names == ["", "", *["runner"] * 4]
    page = parse((await runner.get(f"/sessions/id/{session.pk}/", follow_redirects=True)).content)
    assert [person.one("bdi").text for person in page.all("span", class_="person")] == ["runner"] * 4
    assert "by <bdi>runner</bdi>" in (await runner.get(f"/api/v1/sessions/{session.pk}/html")).text


async def test_titles_tags_and_pins_show_their_person(runner):
    session = await create()
    path = f"/api/v1/sessions/{session.pk}"
    answer = (await runner.patch(path, json={"title": "Rain", "pinned": True, "add_tags": ["wet"]})).json()
    assert (answer["title_person"], answer["pinned_person"]) == ("runner", "runner")
    assert answer["tag_persons"] == {"wet": "runner"}
    row = parse((await runner.get("/sessions/")).content)
    assert row.one("a", class_="tag").attrs["title"] == "By runner"
    await runner.patch(path, json={"title": "", "pinned": False, "remove_tags": ["wet"]})
    await runner.post("/sessions/actions/", data={"action": "tag", "tag": "dry", "session": session.pk})
    await runner.post("/sessions/actions/", data={"action": "pin", "session": session.pk})
    await runner.post(f"/sessions/id/{session.pk}/rename/", data={"title": "Sun"})
    stored = await sync_to_async(AgentSession.objects.get)(pk=session.pk)
    assert (stored.title_person, stored.pinned_person) == ("runner", "runner")
    assert await sync_to_async(lambda: SessionTag.objects.get().person)() == "runner"


async def test_judgements_show_their_person_and_readers_cannot_judge(runner, web):
    session = await create()
    await append(session, "e1")
    path = f"/sessions/id/{session.pk}/events/1/judge/"
    await runner.post(path, data={"verdict": "bad", "note": "It rains."})
    [judgement] = (await runner.get(f"/api/v1/sessions/{session.pk}/judgements")).json()["items"]
    assert (judgement["person"], judgement["note"]) == ("runner", "It rains.")
    page = parse((await runner.get(f"/sessions/id/{session.pk}/", follow_redirects=True)).content)
    assert page.one("div", class_="judgement").one("span", class_="person").one("bdi").text == "runner"
    web.cookies.update(await sync_to_async(cookie_of)("reader"))
    assert (await web.post(path, data={"verdict": "good"})).status_code == 403
    assert (await web.delete(f"/api/v1/sessions/{session.pk}/events/1/judgement")).status_code == 403
    assert (await web.get(f"/api/v1/sessions/{session.pk}/judgements")).json()["items"] == [judgement]


async def test_notes_and_baselines_of_evals_show_their_person(runner):
    run = await sync_to_async(
        lambda: stored_runs.run(stored_runs.version(stored_runs.cases("a")), {"a": [stored_runs.passing()]})
    )()
    attempt = await sync_to_async(lambda: run.attempts.get().pk)()
    await runner.post(f"/evals/runs/{run.id}/note/", data={"note": "good"})
    await runner.post(f"/evals/runs/{run.id}/attempts/{attempt}/note/", data={"note": "odd"})
    await runner.put(f"/api/v1/evals/runs/{run.id}/baseline", json={"baseline": True})
    facts = (await runner.get(f"/api/v1/evals/runs/{run.id}/results")).json()
    assert (facts["note_person"], facts["baseline_person"]) == ("runner", "runner")
    assert facts["attempts"][0]["note_person"] == "runner"
    page = parse((await runner.get(f"/evals/runs/{run.id}/")).content)
    assert "runner" in {person.one("bdi").text for person in page.all("span", class_="person")}
    await runner.post(f"/evals/runs/{run.id}/note/", data={"note": ""})
    assert await sync_to_async(lambda: EvalRun.objects.get().note_person)() == ""
    assert await sync_to_async(lambda: EvalAttempt.objects.get().note_person)() == "runner"


async def test_eval_runs_store_and_show_who_ordered_them(runner, runtime, agents_dir):
    document = builders.evalset(builders.case("a", builders.turn("hi", "hello")))
    builders.write(agents_dir / "weather", "set.evalset.json", document)
    order = {"app": "weather", "evalset": "set"}
    ordered = (await runner.post("/api/v1/evals/runs", json=order)).json()
    assert ordered["person"] == "runner"
    form = parse((await runner.get("/evals/weather/set/")).content).one(id="run-form")
    await runner.post("/evals/weather/set/", data=fields_of(form))
    await runner.post(f"/evals/runs/{ordered['id']}/again/")
    assert (
        await sync_to_async(lambda: list(EvalRun.objects.values_list("person", flat=True)))()
        == ["runner"] * 3
    )
