"""Replay of a session from its page: a run in its own realm, linked with the session."""

from __future__ import annotations

import json

import pytest
from google.adk.apps import App
from google.adk.runners import Runner
from google.genai import types

from devui.runtime.agent_description import describe
from evals_app.analysis.attempt_detail import ReplayOutcome
from evals_app.execution.conversations import build_conversation
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from sessions_app.adk import DjangoSessionService, Recorder
from sessions_app.agents import cards
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from sessions_app.store.state import history as history
from tests.evals.agents import Source
from tests.evals.conftest import Process, wait_until_settled
from tests.evals.form_filling import fields_of
from tests.evals.replay_world import OutsideWorld, weather_agent
from tests.evals.web_pages import get_page
from tests.pages.html import parse


class Talking(Process):
    """A process that also tells of conversations."""

    async def call(self, method, path, body=None):
        if not path.endswith("/conversation"):
            return await super().call(method, path, body)
        service = DjangoSessionService(realm=body.get("realm", ""))
        session = await service.get_session(
            app_name="counter", user_id=body["user_id"], session_id=body["session_id"]
        )
        return build_conversation(session.events)


@pytest.fixture
def world(web, folder):
    """What is outside of the agent that replays; its prompt is another one than that of the session's agent."""
    outside_world = OutsideWorld(sky="rainy")
    runs.register(Talking(Source(weather_agent(outside_world, "Look it up, and be brief."), folder=folder)))
    return outside_world


async def record_session(**state):
    """Talk to an agent in a session, recorded, and return the session."""
    service = DjangoSessionService()
    app = App(name="counter", root_agent=weather_agent(OutsideWorld()), plugins=[Recorder()])
    await service.create_session(app_name="counter", user_id="u", session_id="s", state=state)
    async with Runner(app=app, session_service=service) as runner:
        for text in ("weather in Rome", "and in Oslo"):
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
                pass
    return await units_of_work.read(AgentSession.objects.get, session_id="s", realm="")


async def test_a_session_is_replayed_with_its_tools_and_a_changed_prompt(web, world):
    session = await record_session(mood="fine")
    form = await get_page(web, f"/evals/replay/{session.pk}/")
    assert form.one("select", name="replay_tools").one("option", selected="").attrs["value"] == "recorded"
    assert "After a change to a prompt, use recorded tools and live models:" in form.text

    response = await web.post(
        f"/evals/replay/{session.pk}/", {"replay_models": "live", "replay_tools": "recorded"}
    )
    await wait_until_settled()
    run = await units_of_work.read(EvalRun.objects.get)
    assert (run.status, run.passed, run.source) == ("done", 1, "replay")
    assert (world.tool_calls, world.model_calls) == ([], 4)

    attempt = await units_of_work.read(EvalAttempt.objects.select_related("session").get)
    assert attempt.session.realm == attempt.realm != ""
    again = await units_of_work.read(lambda: history.state_at(attempt.session).merge_scopes())
    assert (again["mood"], again["last_city"]) == ("fine", "Oslo")
    differences = json.loads(attempt.differences)
    assert [
        sorted(difference.keys() - {"turn", "agent", "kind", "call", "recorded_call"})
        for difference in differences
    ] == [["instruction"]] * 4

    page = (await get_page(web, response.url)).one("section", css="replayed")
    assert page.one("a").attrs["href"] == f"/sessions/compare/?left={session.pk}&right={attempt.session_id}"
    assert page.all("strong")[0].text == "Instruction changed; same calls, same answers."
    assert "Look it up, and be brief." in page.text
    await get_page(web, page.one("a").attrs["href"])


@pytest.mark.parametrize(
    ("outcome", "sentence", "is_same"),
    [
        (ReplayOutcome([], 0, 0, 0), "Same requests; same calls, same answers.", True),
        (
            ReplayOutcome(["instruction"], 0, 0, 1),
            "Instruction changed; same calls, same answers; 1 state key differs.",
            True,
        ),
        (
            ReplayOutcome(["model", "tools"], 1, 2, 3),
            "Model, tools changed; other calls in 1 turn, other answers in 2 turns; 3 state keys differ.",
            False,
        ),
    ],
)
def test_outcome_of_replay_leads_with_what_changed(outcome, sentence, is_same):
    assert (outcome.sentence, outcome.has_same_behavior) == (sentence, is_same)


async def test_replay_that_only_moves_a_counter_has_no_failed_verdict(web, world):
    session = await record_session()
    response = await web.post(f"/evals/replay/{session.pk}/", {"replay_tools": "recorded"})
    await wait_until_settled()
    await units_of_work.read(lambda: EvalAttempt.objects.update(status="failed"))
    page = await get_page(web, response.url)
    head = page.one("article", css="attempt").one("div", css="panel-head")
    assert [badge.text for badge in head.all("span", css="badge")] == ["same behavior"]
    assert page.one("div", css="page-head").one("span", css="badge").text == "replayed"


async def test_a_tool_that_is_declared_otherwise_is_shown_line_by_line(web, world):
    session = await record_session()
    response = await web.post(f"/evals/replay/{session.pk}/", {"replay_tools": "recorded"})
    await wait_until_settled()
    sides = {side: {"name": "get_weather", "description": side} for side in ("recorded", "now")}
    difference = {
        "kind": "request",
        "turn": 0,
        "agent": "counter",
        "call": 1,
        "tools": {"changed": ["get_weather"]},
    }
    difference["declarations"] = {"get_weather": sides}
    await units_of_work.write(EvalAttempt.objects.update, differences=json.dumps([difference]))
    page = (await get_page(web, response.url)).one("section", css="replayed")
    assert "How get_weather is declared" in page.text
    assert '"description": "recorded"' in page.text
    assert '"description": "now"' in page.text


async def test_replays_are_in_no_list_of_evalsets(web, world):
    session = await record_session()
    await web.post(f"/evals/replay/{session.pk}/", {"replay_tools": "recorded"})
    await wait_until_settled()
    assert await units_of_work.read(EvalSet.objects.filter(gone=False).count) == 0
    assert "replays" not in (await get_page(web, "/evals/")).one("main").text
    for _ in range(2):
        page = (await get_page(web, "/evals/counter/replays%20of%20sessions/")).one("main").text
        assert "No file is behind them" in page
        assert "no longer exists" not in page


async def test_invalid_replay_is_refused_at_its_form(web, world):
    session = await record_session()
    url = f"/evals/replay/{session.pk}/"
    page = await web.post(url, {"replay_tools": "sometimes"})
    assert page.status_code == 400
    assert "Tools cannot be &#x27;sometimes&#x27;" in page.content.decode()
    assert (await web.get("/evals/replay/99999/")).status_code == 404


async def test_a_session_is_replayed_over_the_api(web, world):
    session = await record_session()
    order = {"session": session.pk, "models": "recorded", "tools": "recorded"}
    answer = await web.post("/api/v1/evals/replays", order, content_type="application/json")
    assert (answer.status_code, answer.json()["policy"]["source"]) == (202, {"session": session.pk})
    await wait_until_settled()
    run = await units_of_work.read(EvalRun.objects.get)
    assert (run.passed, world.tool_calls, world.model_calls) == (1, [], 0)
    refused = await web.post(
        "/api/v1/evals/replays", {**order, "tools": "?"}, content_type="application/json"
    )
    assert (refused.status_code, refused.json()["detail"]) == (400, "Tools cannot be '?'.")


async def test_requests_with_the_same_difference_are_grouped(web, world):
    session = await record_session()
    response = await web.post(f"/evals/replay/{session.pk}/", {"replay_tools": "recorded"})
    await wait_until_settled()
    page = (await get_page(web, response.url)).one("section", css="replayed")
    (group,) = page.all("details")
    assert "turn 1, call 1 and 3 more in the same way" in group.text


async def test_session_of_attempt_is_replayed_like_any_other(web, world):
    session = await record_session()
    await web.post(f"/evals/replay/{session.pk}/", {"replay_tools": "recorded"})
    await wait_until_settled()
    attempt = await units_of_work.read(EvalAttempt.objects.get)
    response = await web.post(f"/evals/replay/{attempt.session_id}/", {"replay_tools": "recorded"})
    await wait_until_settled()
    run = await units_of_work.read(EvalRun.objects.get, pk=response.url.split("/")[-2])
    again = await units_of_work.read(run.attempts.get)
    results = await units_of_work.read(
        lambda: list(again.results.values_list("metric", "score", "reason", "details"))
    )
    assert (run.passed, json.loads(again.differences), world.tool_calls) == (1, [], []), (
        again.error,
        results,
    )
    page = await get_page(web, response.url)
    assert f"/sessions/id/{attempt.session_id}/" in [a.attrs.get("href") for a in page.all("a")]


async def test_variants_run_beside_the_original_on_the_messages_of_a_session(web, world):
    session = await record_session()
    agent = weather_agent(world, "Look it up.")
    await units_of_work.write(cards.save_loaded, "counter", "v1", describe(agent, None, "counter"))
    address = f"/evals/replay/{session.pk}/variants/"
    opened = fields_of((await get_page(web, address)).one(id="variant-form").one("form"))
    data = opened | {"action": "run", "num_runs": "2", "v0-counter.instruction": "Be brief."}
    response = await web.post(address, data)
    await wait_until_settled()
    original, variant_run = await units_of_work.read(lambda: list(EvalRun.objects.order_by("created_at")))
    assert response.headers["Location"] == f"/evals/runs/{original.pk}/#variants"
    assert [(run.total, run.source, run.version_id) for run in (original, variant_run)] == [
        (2, "replay", original.version_id)
    ] * 2
    assert json.loads(variant_run.policy) == {
        "models": "live",
        "tools": "recorded",
        "source": {"session": session.pk},
    }
    assert json.loads(variant_run.variant)["agents"] == {"counter": {"instruction": "Be brief."}}
    assert variant_run.variant_of_id == original.pk
    assert world.tool_calls == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "changes nothing"),
        ({"v0-counter.instruction": "New", "num_runs": "0"}, "Repetitions must be"),
        ({"v0-counter.instruction": "New", "replay_tools": "none"}, "Tools cannot be"),
        ({"v0-counter.instruction": "New", "seen": "other"}, "The agent has changed since"),
    ],
)
async def test_invalid_order_on_a_session_is_refused_and_kept(web, world, changes, message):
    session = await record_session()
    agent = weather_agent(world, "Look it up.")
    await units_of_work.write(cards.save_loaded, "counter", "v1", describe(agent, None, "counter"))
    address = f"/evals/replay/{session.pk}/variants/"
    opened = fields_of((await get_page(web, address)).one(id="variant-form").one("form"))
    response = await web.post(address, opened | changes | {"action": "run"})
    assert response.status_code == 422
    assert message in parse(response.content).text
    assert not await units_of_work.read(EvalRun.objects.exists)


async def test_unknown_session_has_no_variants(web, world):
    assert (await web.get("/evals/replay/999/variants/")).status_code == 404
