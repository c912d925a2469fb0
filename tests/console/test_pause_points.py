"""The form that chooses where a run pauses, on the session page and without scripts."""

from __future__ import annotations

import time

import pytest
from django.http import QueryDict
from justhtml import JustHTML

from sessions_app.agents import remotes
from sessions_app.agents.remotes import Remote
from sessions_app.console import message_draft
from sessions_app.console.pause_form import read_form
from sessions_app.console.pause_points import PausePoints
from sessions_app.runs import lifecycle, pauses
from sessions_app.store.models import Run, RunPause
from tests.runtime.run_rows import new_session

pytestmark = pytest.mark.usefixtures("store")


def test_form_is_stored_with_the_request_and_offered_again():
    points, _, errors = read_form(
        {"pause_tools": " book , book,pay", "pause_if": "city = Oslo", "pause_minutes": "1.5"}
    )
    assert not errors
    assert points == PausePoints(tool_calls=True, tools=("book", "pay"), condition="city = Oslo", limit_s=90)
    assert PausePoints.read_request({"pause_at": points.as_json()}) == points
    assert not PausePoints.read_request({})


def test_outcomes_and_state_keys_are_stored_and_offered_again():
    posted = {"pause_result": "1", "pause_error": "1", "pause_keys": "city, user:name", "pause_tools": "book"}
    points, _, errors = read_form(posted)
    assert not errors
    assert points == PausePoints(
        tool_results=True, errors=True, state_keys=("city", "user:name"), tools=("book",)
    )
    assert points
    assert PausePoints.read_request({"pause_at": points.as_json()}) == points
    assert points.key_text == "city, user:name"


@pytest.mark.parametrize(
    ("posted", "name", "message"),
    [
        ({"pause_tool": "1", "pause_if": "city ="}, "pause_if", "The value after '=' is missing."),
        ({"pause_tool": "1", "pause_if": "Oslo"}, "pause_if", "no comparison with a present value"),
        ({"pause_if": "city = Oslo"}, "pause_model", "Nothing is chosen to pause at."),
        ({"pause_tool": "1", "pause_minutes": "soon"}, "pause_minutes", "'soon' is no number from 1 to 1440"),
        ({"pause_tool": "1", "pause_minutes": "nan"}, "pause_minutes", "no number from 1"),
        ({"pause_tool": "1", "pause_minutes": "0"}, "pause_minutes", "no number from 1"),
        ({"pause_tools": ",".join(map(str, range(51)))}, "pause_tools", "51 names are too many"),
    ],
)
def test_form_refuses_what_could_never_pause(posted, name, message):
    _, _, errors = read_form(posted)
    assert message in errors[name]


def test_agent_on_another_server_is_refused():
    remotes.register(Remote("go", "http://127.0.0.1:1", apps=("weather",)))
    try:
        posted = QueryDict("message=hi&pause_tool=1")
        draft = message_draft.read_draft("weather@go", posted, [], streaming=True)
    finally:
        remotes.clear()
    assert "runs on another server" in draft.errors["pause_model"]


def test_refused_form_keeps_what_was_typed(get, client):
    session = new_session()
    posted = {"message": "Hello there", "pause_tool": "1", "pause_if": "city =", "pause_minutes": "7"}
    page = client.post(f"/runs/start/{session.pk}/", posted)
    assert page.status_code == 422
    text = page.content.decode()
    for typed in ("Hello there", 'value="city ="', 'value="7"', "<strong>Pause if</strong>"):
        assert typed in text
    assert not Run.objects.exists()


def paused_run() -> tuple[Run, RunPause]:
    request = {"new_message": None, "pause_at": PausePoints(tool_calls=True).as_json()}
    run = lifecycle.create_run(new_session().pk, request, person="ann")
    Run.objects.filter(pk=run.pk).update(status=Run.Status.RUNNING, started_at=1.0, first_seq=0)
    content: pauses.PauseContent = {
        "args": {"city": "<b>Oslo</b>"},
        "schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "state": {"temp:raw": "<script>alert(1)</script>"},
    }
    call = (run.pk, pauses.Kind.TOOL, "<i>desk</i>", "<i>book</i>", content, time.time(), 600)
    pk = pauses.add_pause(*call)
    assert pauses.add_pause(*call) == pk  # repeated, because the reply was lost
    return run, RunPause.objects.get(pk=pk)


def test_paused_call_is_a_form_on_the_session_page_that_escapes_what_agents_wrote(get, client):
    run, pause = paused_run()
    text = client.get(f"/sessions/id/{run.session_id}/", follow=True).content.decode()
    assert f'data-pause="{pause.pk}"' in text
    assert "<i>book</i>" not in text
    assert "<script>alert(1)" not in text
    assert "&lt;b&gt;Oslo&lt;/b&gt;" in text
    assert 'data-status="paused"' in client.get("/runs/").content.decode()


def test_form_without_scripts_decides_and_returns_to_the_session(client):
    run, pause = paused_run()
    url = f"/runs/{run.pk}/pauses/{pause.pk}/"
    response = client.post(url, {"action": "continue", "args": '{"city": "Rome"}'})
    assert (response.status_code, response.url) == (303, f"/sessions/weather/ann/{run.session.session_id}/")
    decision = pauses.fetch_decision(pause.pk)
    assert decision is not None
    assert decision.args == {"city": "Rome"}
    assert client.post(url, {"action": "continue"}).status_code == 409


@pytest.mark.parametrize(
    ("posted", "message"),
    [
        ({"action": "dance"}, "is not possible here"),
        ({"action": "answer", "response": " "}, "Answer: it is empty."),
        ({"action": "answer", "response": '{"a": '}, "Answer: Line 1"),
        ({"action": "continue", "args": '{"city": 1}'}, "city is integer, not string"),
        ({"action": "continue", "args": "x" * 400_001}, "Arguments: more than 400,000 characters."),
    ],
)
def test_invalid_decision_is_refused_and_the_call_still_waits(client, posted, message):
    run, pause = paused_run()
    response = client.post(f"/runs/{run.pk}/pauses/{pause.pk}/", posted, headers={"HX-Request": "true"})
    assert response.status_code == 422
    assert message in response.content.decode()
    assert pauses.fetch_decision(pause.pk) is None


def test_pause_of_another_run_and_of_an_ended_run_are_not_there(client):
    run, pause = paused_run()
    assert client.post(f"/runs/{'0' * 32}/pauses/{pause.pk}/", {"action": "continue"}).status_code == 404
    assert client.post(f"/runs/{run.pk}/pauses/{pause.pk + 1}/", {"action": "continue"}).status_code == 409
    lifecycle.finish(run.pk, Run.Status.CANCELLED)
    assert not RunPause.objects.exists()
    assert client.post(f"/runs/{run.pk}/pauses/{pause.pk}/", {"action": "continue"}).status_code == 409


def test_request_that_is_sent_back_as_the_page_shows_it_is_unchanged(client):
    run, _ = paused_run()
    content: pauses.PauseContent = {
        "system_instruction": "\n  You are a\u200b desk.\nBe <brief>.\n",
        "contents": [{"parts": [{"text": "hi\u200b"}], "role": "user"}],
        "tools": [],
        "state": {},
    }
    pk = pauses.add_pause(run.pk, pauses.Kind.MODEL, "desk", "m-1", content, time.time(), 600)
    page = JustHTML(
        client.get(f"/sessions/id/{run.session_id}/", follow=True).content.decode(), sanitize=False
    )
    shown = {
        name: page.query(f'form[data-pause="{pk}"] textarea[name={name}]')[0].to_text(strip=False)
        for name in ("system_instruction", "contents")
    }
    url = f"/runs/{run.pk}/pauses/{pk}/"
    assert client.post(url, {"action": "continue", **shown}).status_code == 303
    decision = pauses.fetch_decision(pk)
    assert decision == pauses.Decision("continue")
