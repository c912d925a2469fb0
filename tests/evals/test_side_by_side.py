"""A case of a comparison with both sides, and what changed in the agent between the runs."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from evals_app.analysis import agent_changes, baselines, side_by_side
from evals_app.analysis.side_by_side import MAX_KEYS
from evals_app.models import EvalRun
from evals_app.runs.writes.outcomes import MetricScore
from sessions_app.adk import DjangoSessionService
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from tests.evals import stored_runs
from tests.evals.builders import case, evalset, turn
from tests.evals.replay_world import OutsideWorld, weather_agent
from tests.evals.stored_runs import Outcome, cases, failing, passing
from tests.evals.web_pages import get_page
from tests.pages.html import parse
from tests.sessions.build import event

OSLO = [{"name": "get_weather", "args": {"city": "Oslo", "unit": "c"}}]
HOSTILE = '<b>"&case=2'


@pytest.fixture
def pages(settings, folder):
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    return Client()


def attempt(answer, score, calls=(), **more):
    """Return an attempt with this answer and the score of one metric."""
    status = "passed" if score >= 0.5 else "failed"
    scores = [MetricScore(0, "response_match_score", None, score, 0.5, status)]
    return Outcome(status, actual=[turn("Paris", answer, list(calls))], scores=scores, **more)


def two_runs(before, after, *names):
    """Return two runs of the cases, whose repetitions all came to these outcomes."""
    of = stored_runs.version(cases(*names), f"of {len(names)}")
    config = {"criteria": {"response_match_score": 0.5}}
    then = stored_runs.run(of, dict.fromkeys(names, before), config=config)
    return then, stored_runs.run(of, dict.fromkeys(names, after), code="v2", config=config)


@pytest.fixture
def worse():
    """A run, and a run after it whose agent looks up another city; its second repetition fails."""
    return two_runs(
        [attempt("It is sunny.", 1.0, stored_runs.PARIS), attempt("It is sunny.", 0.5, stored_runs.PARIS)],
        [attempt("It is sunny.", 0.75, stored_runs.PARIS), attempt("It is <i>foggy</i>.", 0.25, OSLO)],
        "a",
        HOSTILE,
    )


def open_case(pages, runs, name="a", **query):
    before, after = runs
    response = pages.get(f"/evals/runs/{after.pk}/compare/", {"with": before.pk, "case": name, **query})
    assert response.status_code == 200
    return parse(response.content).one("section", css="sides")


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["a", HOSTILE])
def test_case_opens_into_the_worst_attempts_of_both_runs(pages, worse, name):
    sides = open_case(pages, worse, name)
    scores = [cell.text for cell in sides.one("table", css="score-pairs").one("tbody").all("td")]
    assert scores == ["0.75 0.5 to 1", "0.5 0.25 to 0.75", "−0.25", "0.5"]
    answers = [answer.one("p", css="pre") for answer in sides.all(css="answer")]
    assert [answer.text for answer in answers] == ["It is sunny.", "It is <i>foggy</i>."]
    assert answers[0].one("del").text == "sunny"
    assert "foggy" in answers[1].one("ins").text
    arguments = sides.one("tr", css="pair-arguments").all("div")
    assert [(row.one("dt").text, "differs" in row.classes) for row in arguments] == [
        ("city", True),
        ("unit", True),
    ]
    worst = worse[1].attempts.get(case_id=name, repetition=2)
    links = [link.attrs["href"] for link in sides.all("a")]
    assert f"/evals/runs/{worse[1].pk}/?attempt={worst.pk}" in links


@pytest.mark.django_db
def test_repetitions_are_chosen_without_scripts(pages, worse):
    sides = open_case(pages, worse)
    after = sides.all(css="sides-head")[1].all("a", css="repetition")
    assert [link.attrs.get("aria-current") for link in after] == [None, "true"]
    chosen = parse(pages.get(f"/evals/runs/{worse[1].pk}/compare/{after[0].attrs['href']}").content)
    assert "the same" in chosen.one("section", css="sides").text
    opened = chosen.one("a", aria_expanded="true")
    closed = parse(pages.get(f"/evals/runs/{worse[1].pk}/compare/{opened.attrs['href']}").content)
    assert not closed.all("section", css="sides")
    assert open_case(pages, worse, after="9" * 5000)


@pytest.mark.django_db
def test_htmx_gets_the_cases_alone_with_the_case_open(pages, worse):
    headers = {"HX-Request": "true", "HX-Target": "cases"}
    response = pages.get(f"/evals/runs/{worse[1].pk}/compare/?case=a", headers=headers)
    assert not parse(response.content).all("h1")
    assert parse(response.content).one("section", css="sides")


@pytest.mark.django_db
def test_case_on_a_later_page_opens_on_its_page(pages):
    runs = two_runs([passing()], [passing()], *(f"case {number}" for number in range(130)))
    assert open_case(pages, runs, "case 120").attrs["aria-label"].startswith("case 120")


@pytest.mark.django_db
def test_case_that_a_run_lacks_shows_one_side(pages):
    then = stored_runs.run(stored_runs.version(cases("a")), {"a": [passing()]})
    now = stored_runs.run(stored_runs.version(cases("a", "b")), {"a": [passing()], "b": [failing()]})
    sides = open_case(pages, (then, now), "b")
    assert "did not execute" in sides.all(css="sides-head")[0].text
    assert "not reached" in sides.all(css="answer")[0].text


@pytest.mark.django_db
def test_queries_do_not_grow_with_repetitions_or_cases():
    counts = []
    for repetitions, names in ((1, ["a"]), (3, [str(number) for number in range(12)])):
        then, now = two_runs([passing()] * repetitions, [failing(OSLO)] * repetitions, *names)
        comparison = baselines.compare_runs(then, now)
        with CaptureQueriesContext(connection) as captured:
            side_by_side.read_case(then, now, comparison.cases[0])
            agent_changes.read_agent_changes(comparison)
        counts.append(len(captured))
    assert counts[0] == counts[1]
    assert counts[0] <= 10


async def test_differing_state_keys_are_listed_without_credentials(store):
    service = DjangoSessionService()
    credential = {"auth_type": "apiKey", "api_key": "hidden key"}
    for name, n in (("before", 1), ("after", 2)):
        session = await service.create_session(app_name="counter", user_id=name, session_id=name)
        delta = {"n": n, "same": [1], "auth": {**credential, "api_key": name}}
        delta |= {f"key {number:03}": name for number in range(MAX_KEYS)}
        await service.append_event(session, event("hi", delta, author="counter", invocation_id="i"))

    def read():
        runs = two_runs(
            *(
                [attempt("Sunny.", 1.0, session_pk=AgentSession.objects.get(session_id=name).pk)]
                for name in ("before", "after")
            ),
            "a",
        )
        with CaptureQueriesContext(connection) as captured:
            state = side_by_side.read_case(*runs, baselines.compare_runs(*runs).cases[0]).state
        return state, len(captured)

    state, queries = await units_of_work.write(read)
    assert (len(state.keys), state.more, state.same) == (MAX_KEYS, 2, 1)
    assert queries <= 40
    auth = next(key for key in state.keys if key.name == "auth")
    assert auth.before == auth.after == '{"auth_type":"apiKey"}'


def changes_between(before, after):
    return agent_changes.read_agent_changes(baselines.compare_runs(before, after))


WEATHER = evalset(
    case("a", turn("weather in Rome", "It is sunny.")), case("b", turn("weather in Oslo", "It is sunny."))
)


async def test_changed_instruction_tools_and_settings_are_shown_as_a_diff(play, web):
    def forecast(city: str) -> str:
        """Tell the weather of tomorrow."""
        return city

    before = await play(WEATHER, weather_agent(OutsideWorld()))
    agent = weather_agent(OutsideWorld(), "Look it up twice.", generate_content_config={"temperature": 0.5})
    agent.tools.append(forecast)
    after = await play(WEATHER, agent)

    (change,) = (await units_of_work.read(changes_between, before, after)).changes
    assert (change.agent, change.cases, change.differing) == ("counter", 2, 2)
    marks = [
        (line.mark, line.text) for line in change.request.instruction if line.mark in ("added", "removed")
    ]
    assert ("removed", "Look it up.") in marks
    assert ("added", "Look it up twice.") in marks
    assert change.request.tools == {"added": ["forecast"]}
    assert change.request.settings == [("temperature", "null", "0.5")]
    page = await get_page(web, f"/evals/runs/{after.pk}/compare/?with={before.pk}")
    assert "forecast" in page.one("section", css="agent-changes").text


async def test_equal_requests_are_called_equal(play, web):
    before = await play(WEATHER, weather_agent(OutsideWorld()))
    after = await play(WEATHER, weather_agent(OutsideWorld(sky="rainy")))

    def change_code():
        EvalRun.objects.filter(pk=after.pk).update(code_version="v2")

    async def read_changes():
        page = await get_page(web, f"/evals/runs/{after.pk}/compare/?with={before.pk}")
        return page.one("section", css="agent-changes").text

    equal = "Instructions, tools and settings are equal in the recorded requests"
    assert f"{equal}." in await read_changes()
    await units_of_work.write(change_code)
    assert f"{equal}; the code hash differs." in await read_changes()


@pytest.mark.django_db
def test_without_recorded_requests_the_change_is_unknown(pages, worse):
    page = parse(pages.get(f"/evals/runs/{worse[1].pk}/compare/").content)
    assert "Unknown" in page.one("section", css="agent-changes").text


async def test_instruction_that_differs_in_some_cases_may_come_from_state(play):
    rainy = False

    async def instruction(context):
        is_north = "Oslo" in str(context.user_content)
        return "Look it up; it may rain." if rainy and is_north else "Look it up."

    before = await play(WEATHER, weather_agent(OutsideWorld(), instruction))
    rainy = True
    after = await play(WEATHER, weather_agent(OutsideWorld(), instruction))
    (change,) = (await units_of_work.read(changes_between, before, after)).changes
    assert (change.differing, change.equal, change.case) == (1, 1, "b")
