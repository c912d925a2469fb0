"""An attempt that loses the store is tried again; what stays lost is no outcome of its case."""

from __future__ import annotations

from typing import Any

import pytest

from evals_app import again, report, standing, writes
from evals_app.engine import course
from evals_app.engine.execute import MOST_LOST
from evals_app.models import EvalAttempt, EvalRun
from sessions_app import db, store_retry
from sessions_app import writes as sessions
from sessions_app.errors import StoreUnavailable
from tests.evals.builders import case, evalset, turn
from tests.sessions.faults.test_store_retry import failing

ONE = evalset(case("one", turn("go", "fine")))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once."""
    monkeypatch.setattr(store_retry, "FIRST_S", 0.001)


def fine(ctx: Any, said: str) -> str:
    return "fine"


def only_attempt(run: EvalRun) -> EvalAttempt:
    return run.attempts.get()


def lose_appends(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    monkeypatch.setattr(sessions, "append_event", failing(times, sessions.append_event, before=True))


async def test_an_attempt_that_lost_the_store_is_tried_again_and_says_so(play, monkeypatch):
    lose_appends(monkeypatch, 1)
    told: list[tuple[int, str]] = []
    run = await play(
        ONE, fine, progress=lambda attempt, outcome: told.append((attempt.tries, outcome and outcome.status))
    )
    attempt = await db.read(only_attempt, run)
    assert (run.status, run.passed, run.errors, run.finished) == (EvalRun.Status.DONE, 1, 0, 1)
    assert (attempt.status, attempt.tries, attempt.error_type) == ("passed", 2, "")
    [lost] = attempt.tried_before
    assert (lost["status"], lost["error_type"]) == ("error", standing.LOST_STORE)
    assert lost["error"] == "The store is away."
    assert lost["why"] == "The store failed while it was in flight."
    assert lost["realm"] != attempt.realm
    assert not standing.must_be_alone(attempt)
    assert told == [(1, None), (2, None), (2, "passed")]


async def test_an_agent_that_hides_the_lost_store_is_not_judged_by_half_a_session(play, monkeypatch):
    lose_appends(monkeypatch, 1)
    from tests.evals import agents

    class Hiding(agents.Scripted):
        async def run_async(self, parent_context):
            try:
                async for event in super().run_async(parent_context):
                    yield event
            except StoreUnavailable:
                return

    run = await play(ONE, Hiding(name="counter", answer=fine))
    attempt = await db.read(only_attempt, run)
    assert (attempt.status, attempt.tries) == ("passed", 2)


async def test_an_attempt_that_always_loses_the_store_has_no_outcome_and_can_be_resumed(play, monkeypatch):
    lose_appends(monkeypatch, 1000)
    run = await play(ONE, fine)
    attempt = await db.read(only_attempt, run)
    assert (run.status, run.errors, attempt.tries) == (EvalRun.Status.DONE, 1, MOST_LOST)
    assert (attempt.status, attempt.error_type) == ("error", standing.LOST_STORE)
    assert attempt.error == "The store is away."
    assert (await db.read(report.tally, run)).rate.total == 0

    resumed = await db.write(again.resume, run)
    assert (resumed.status, resumed.errors) == (EvalRun.Status.PENDING, 0)


@pytest.mark.parametrize("before", [True, False], ids=["nothing was stored", "the answer was lost"])
@pytest.mark.parametrize(
    "name", ["claim_run", "note_facts", "start_attempt", "finish_attempt", "finish_run", "repeat_attempt"]
)
async def test_a_run_comes_to_its_end_once_though_the_store_fails(play, monkeypatch, name, before):
    if name == "repeat_attempt":
        lose_appends(monkeypatch, 1)
    monkeypatch.setattr(writes, name, failing(3, getattr(writes, name), before=before))
    told = []
    run = await play(ONE, fine, progress=lambda attempt, outcome: outcome and told.append(outcome.status))
    attempt = await db.read(only_attempt, run)
    assert (run.status, run.passed, run.finished) == (EvalRun.Status.DONE, 1, 1)
    assert attempt.tries == (2 if name == "repeat_attempt" else 1)
    assert attempt.finished_at >= attempt.started_at
    assert told == ["passed"]
    assert await db.read(attempt.results.filter(metric="response_match_score", invocation=None).count) == 1


async def test_a_run_goes_on_when_the_store_cannot_be_asked_for_a_while(play, monkeypatch):
    monkeypatch.setattr(course, "GLANCE", 0.01)
    look = failing(5, course._look_at, before=True)
    monkeypatch.setattr(course, "_look_at", look)

    async def slowly(ctx: Any, said: str) -> str:
        import asyncio

        await asyncio.sleep(0.5)
        return "fine"

    run = await play(ONE, slowly, parallelism=1)
    assert (run.status, run.passed) == (EvalRun.Status.DONE, 1)


async def test_an_attempt_that_a_person_cancelled_is_not_tried_again(play, monkeypatch):
    lose_appends(monkeypatch, 1)

    def cancel_first(attempt_pk: int, started_at: float | None, failure: Any) -> None:
        writes.request_cancel_attempt(attempt_pk)
        repeat(attempt_pk, started_at, failure)

    repeat = writes.repeat_attempt
    monkeypatch.setattr(writes, "repeat_attempt", cancel_first)
    run = await play(ONE, fine)
    attempt = await db.read(only_attempt, run)
    assert (attempt.status, attempt.stopped_because, attempt.tries) == ("cancelled", writes.BY_HAND, 1)
    assert (run.status, run.cancelled) == (EvalRun.Status.DONE, 1)
