"""Deletion of an eval run removes all data of its attempts and nothing else."""

from __future__ import annotations

import time

from evals_app.models import EvalAttempt, EvalRun, EvalSet, EvalSetVersion, MetricResult
from evals_app.runs.writes import runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, AppState, StateChange, UserScope
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes as sessions

RUNS = "/api/v1/evals/runs"


def create_run(status: str = "done") -> EvalRun:
    """Create a run of two attempts, each with a session and state in its own realm."""
    evalset, _ = EvalSet.objects.get_or_create(app_name="counter", evalset_id="smoke")
    version, _ = EvalSetVersion.objects.get_or_create(
        evalset=evalset, digest="d", defaults={"content": "{}", "created_at": time.time()}
    )
    run = runs.create_run(runs.NewEvalRun(version, [(0, "a"), (1, "b")], {}))
    for attempt in EvalAttempt.objects.filter(run=run):
        session = sessions.create_session(
            SessionKey(attempt.realm, "counter", "u", "s"), {"n": 1, "user:n": 2, "app:n": 3}
        )
        attempt.session = session
        attempt.save()
    EvalRun.objects.filter(pk=run.pk).update(status=status)
    return run


async def test_a_run_goes_with_its_attempts_and_their_worlds_and_others_stay(web, store):
    gone_run, other_run = await units_of_work.read(create_run), await units_of_work.read(create_run)
    await units_of_work.read(
        lambda: sessions.create_session(SessionKey("", "counter", "u", "real"), {"app:n": 1})
    )
    assert (await web.delete(f"{RUNS}/{gone_run.pk}")).status_code == 204
    assert (await web.get(f"{RUNS}/{gone_run.pk}")).status_code == 404

    def remains() -> tuple[set[str], ...]:
        realms = [AgentSession.objects.values_list("realm", flat=True)]
        realms += [UserScope.objects.values_list("realm", flat=True)]
        realms += [AppState.objects.values_list("owner__realm", flat=True)]
        return tuple(set(names) - {""} for names in realms)

    worlds = await units_of_work.read(lambda: set(EvalAttempt.objects.values_list("realm", flat=True)))
    assert all(realm.startswith(f"eval/{other_run.pk}/") for realm in worlds)
    assert await units_of_work.read(remains) == (worlds, worlds, worlds)
    assert await units_of_work.read(StateChange.objects.count) == 2 * 3 + 1
    assert await units_of_work.read(MetricResult.objects.count) == 0


async def test_a_run_that_has_not_ended_is_left_as_it_is(web, store):
    run = await units_of_work.read(lambda: create_run("running"))
    answer = await web.delete(f"{RUNS}/{run.pk}")
    assert (answer.status_code, answer.json()["code"]) == (409, "eval_run_active")
    assert "Cancel it first" in answer.json()["hint"]
    assert await units_of_work.read(AgentSession.objects.count) == 2


async def test_a_run_that_is_not_there_cannot_be_deleted(web, store):
    assert (await web.delete(f"{RUNS}/nothing")).status_code == 404
