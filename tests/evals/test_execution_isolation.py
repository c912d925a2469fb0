"""Attempts share no state with each other or with other sessions."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.apps import apps
from django.db import models

from evals_app.models import EvalAttempt
from sessions_app.adk import DjangoSessionService
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, AppState, UserState
from sessions_app.store.scopes import EVALUATION_KEY
from tests.evals import agents
from tests.evals.builders import case, evalset, turn


def rows(run):
    return list(
        run.attempts.order_by("case_index", "repetition")
        .select_related("session")
        .prefetch_related("results")
    )


async def test_user_state_is_isolated_between_repetitions(play):
    """3 repetitions × 8 cases, 8 at once; every case counts twice and pins the same session id."""
    real = DjangoSessionService()
    await real.create_session(
        app_name="counter", user_id="u", session_id="pinned", state={"user:n": 41, "app:n": 41, "n": 41}
    )
    start = {"app_name": "something_else", "user_id": "u", "session_id": "pinned"}
    cases = [
        case(f"c{number}", turn("go", "count 1"), turn("go", "count 2"), session_input=start)
        for number in range(8)
    ]
    run = await play(evalset(*cases), agents.count, {"response_match_score": 1.0}, num_runs=3, parallelism=8)

    attempts = await units_of_work.read(rows, run)
    assert len(attempts) == 24
    assert {attempt.status for attempt in attempts} == {EvalAttempt.Status.PASSED}
    assert len({attempt.realm for attempt in attempts}) == 24
    sessions = [attempt.session for attempt in attempts]
    assert {session.session_id for session in sessions} == {"pinned"}
    assert {session.app_name for session in sessions} == {"counter"}
    assert {session.realm for session in sessions} == {attempt.realm for attempt in attempts}
    assert await real_state(real) == {"user:n": 41, "app:n": 41, "n": 41}
    assert await units_of_work.read(AgentSession.objects.filter(realm="").count) == 1


async def real_state(real):
    session = await real.get_session(app_name="counter", user_id="u", session_id="pinned")
    return session.state


async def test_attempt_starts_with_the_state_of_its_case_only(play):
    seeded = {"app_name": "counter", "user_id": "u", "state": {"user:n": 6, "app:n": 1}}
    document = evalset(
        case("seeded", turn("go", "count 7"), session_input=seeded), case("fresh", turn("go", "count 1"))
    )
    run = await play(document, agents.count, {"response_match_score": 1.0})
    assert (run.passed, run.total) == (2, 2)

    def values(model):
        return sorted(model.objects.exclude(owner__realm="").values_list("value", flat=True))

    assert await units_of_work.read(values, UserState) == ["1", "7"]
    assert await units_of_work.read(values, AppState) == ["1", "7"]


async def test_cases_with_the_same_id_are_isolated(play):
    document = evalset(case("same", turn("go", "count 1")), case("same", turn("go", "count 1")))
    run = await play(document, agents.count, {"response_match_score": 1.0}, num_runs=2)
    assert run.passed == 4
    assert any("given 2 times" in warning for warning in json.loads(run.warnings))


@pytest.mark.parametrize("parallelism", [1, 4])
async def test_so_many_attempts_run_at_once_and_no_more(play, parallelism):
    now, most = 0, 0
    together = asyncio.Barrier(parallelism)  # nobody goes on before so many have come

    async def busy(ctx, text):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await together.wait()
        now -= 1
        return "fine"

    document = evalset(*[case(f"c{number}", turn("go", "fine")) for number in range(8)])
    run = await play(document, busy, parallelism=parallelism)
    assert (run.passed, most) == (8, parallelism)


async def test_internal_state_of_adks_evaluation_is_not_stored(play):
    run = await play(
        evalset(case("a", turn("go", "fine"), turn("go on", "fine"))),
        agents.talker("fine"),
        {"hallucinations_v1": 0.5},
    )

    def stored():
        return [
            (model.__name__, field.name)
            for model in apps.get_models()
            for field in model._meta.concrete_fields
            if isinstance(field, models.TextField | models.CharField)
            and model.objects.filter(**{f"{field.name}__contains": EVALUATION_KEY}).exists()
        ]

    assert run.total == 1
    assert await units_of_work.read(stored) == []
