"""Attempts that lose the store are repeated; an attempt that stays lost has no outcome."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from evals_app import api as evals_api
from evals_app.analysis import case_matrix
from evals_app.analysis.exports import run_json
from evals_app.execution.attempt_tries import MAX_LOST_TRIES
from evals_app.files import library
from evals_app.metrics import config
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status, dispatch, rerun, run_control, run_orders
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.run_orders import RunOrder
from evals_app.runs.writes import attempts, crashes, runs
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import StoreUnavailable
from sessions_app.store.sessions import writes as sessions
from tests.evals.builders import case, evalset, turn
from tests.evals.conftest import wait_until_settled
from tests.patience import PATIENCE_S
from tests.sessions.cancelled_callers import cancel_while_writing
from tests.sessions.faults.lost_store import fail_with_lost_store

ONE = evalset(case("one", turn("go", "fine")))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once."""
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.001)


def fine(ctx: Any, text: str) -> str:
    return "fine"


def only_attempt(run: EvalRun) -> EvalAttempt:
    return run.attempts.get()


def lose_appends(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    monkeypatch.setattr(
        sessions, "append_event", fail_with_lost_store(times, sessions.append_event, before=True)
    )


async def test_attempt_that_lost_the_store_is_repeated_and_says_so(play, monkeypatch):
    lose_appends(monkeypatch, 1)
    messages: list[tuple[int, str]] = []
    run = await play(
        ONE,
        fine,
        progress=lambda attempt, outcome: messages.append((attempt.tries, outcome and outcome.status)),
    )
    attempt = await units_of_work.read(only_attempt, run)
    assert (run.status, run.passed, run.errors, run.finished) == (EvalRun.Status.DONE, 1, 0, 1)
    assert (attempt.status, attempt.tries, attempt.error_type) == ("passed", 2, "")
    [lost_try] = attempt.earlier_tries
    assert (lost_try["status"], lost_try["error_type"]) == ("error", attempt_status.STORE_LOST)
    assert lost_try["error"] == "The store is away."
    assert lost_try["why"] == "The store failed while it was in flight."
    assert lost_try["realm"] != attempt.realm
    assert not attempt_status.must_run_alone(attempt)
    assert messages == [(1, None), (2, None), (2, "passed")]


async def test_agent_that_hides_a_lost_store_is_not_judged(play, monkeypatch):
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
    attempt = await units_of_work.read(only_attempt, run)
    assert (attempt.status, attempt.tries) == ("passed", 2)


async def test_attempt_that_always_loses_the_store_can_be_resumed(play, monkeypatch):
    lose_appends(monkeypatch, 1000)
    run = await play(ONE, fine)
    attempt = await units_of_work.read(only_attempt, run)
    assert (run.status, run.errors, attempt.tries) == (EvalRun.Status.DONE, 1, MAX_LOST_TRIES)
    assert (attempt.status, attempt.error_type) == ("error", attempt_status.STORE_LOST)
    assert attempt.error == "The store is away."
    assert (await units_of_work.read(case_matrix.tally, run)).rate.total == 0

    resumed = await units_of_work.write(rerun.resume, run)
    assert (resumed.status, resumed.errors) == (EvalRun.Status.PENDING, 0)


@pytest.mark.parametrize("before", [True, False], ids=["nothing was stored", "the answer was lost"])
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (runs, "claim_run"),
        (runs, "note_facts"),
        (attempts, "start_attempt"),
        (attempts, "finish_attempt"),
        (runs, "finish_run"),
        (crashes, "repeat_attempt"),
    ],
)
async def test_a_run_comes_to_its_end_once_though_the_store_fails(play, monkeypatch, module, name, before):
    if name == "repeat_attempt":
        lose_appends(monkeypatch, 1)
    monkeypatch.setattr(module, name, fail_with_lost_store(3, getattr(module, name), before=before))
    messages = []
    run = await play(ONE, fine, progress=lambda attempt, outcome: outcome and messages.append(outcome.status))
    attempt = await units_of_work.read(only_attempt, run)
    assert (run.status, run.passed, run.finished) == (EvalRun.Status.DONE, 1, 1)
    assert attempt.tries == (2 if name == "repeat_attempt" else 1)
    assert attempt.finished_at >= attempt.started_at
    assert messages == ["passed"]
    assert (
        await units_of_work.read(attempt.results.filter(metric="response_match_score", invocation=None).count)
        == 1
    )


async def test_run_survives_temporary_loss_of_the_store(play, monkeypatch):
    looks: list[Any] = []  # with a limit of tokens, the monitor reads the store whenever an attempt has ended
    read_snapshot = fail_with_lost_store(3, run_control._read_snapshot, before=True)
    monkeypatch.setattr(
        run_control, "_read_snapshot", lambda *arguments: looks.append(arguments) or read_snapshot(*arguments)
    )
    many = evalset(*(case(f"case {number}", turn("go", "fine")) for number in range(10)))
    run = await play(many, fine, parallelism=1, limits=EvalRunLimits(tokens=1_000_000))
    assert (run.status, run.passed) == (EvalRun.Status.DONE, 10)
    assert len(looks) > 3


async def test_an_attempt_that_a_person_cancelled_is_not_tried_again(play, monkeypatch):
    lose_appends(monkeypatch, 1)

    def cancel_first(attempt_pk: int, started_at: float | None, failure: Any, now: float) -> None:
        attempts.request_cancel_attempt(attempt_pk)
        repeat(attempt_pk, started_at, failure, now)

    repeat = crashes.repeat_attempt
    monkeypatch.setattr(crashes, "repeat_attempt", cancel_first)
    run = await play(ONE, fine)
    attempt = await units_of_work.read(only_attempt, run)
    assert (attempt.status, attempt.stopped_because, attempt.tries) == (
        "cancelled",
        attempts.CANCELLED_BY_USER,
        1,
    )
    assert (run.status, run.cancelled) == (EvalRun.Status.DONE, 1)


def order_by(how: str) -> tuple[str, dict[str, Any]]:
    """Return the path and the fields by which the evalset `smoke` is run."""
    return {
        "page": (
            "/evals/counter/smoke/",
            {"metric": ["response_match_score"], "threshold:response_match_score": "0.5"},
        ),
        "API": ("/api/v1/evals/runs", {"app": "counter", "evalset": "smoke", "cases": ["breaks"]}),
        "ADK's path": (
            "/dev/apps/counter/eval-sets/smoke/run",
            {"evalMetrics": [{"metricName": "response_match_score", "threshold": 0.5}]},
        ),
    }[how]


async def post(web: Any, how: str, path: str, fields: dict[str, Any]) -> int:
    options = {} if how == "page" else {"content_type": "application/json"}
    return int((await web.post(path, fields, **options)).status_code)


async def statuses_but_active() -> list[str]:
    """Return the statuses of all runs when none is active."""
    await wait_until_settled()
    return await units_of_work.read(
        lambda: list(EvalRun.objects.order_by("created_at").values_list("status", flat=True))
    )


@pytest.mark.parametrize("before", [True, False], ids=["nothing was stored", "the answer was lost"])
@pytest.mark.parametrize("how", ["page", "API", "ADK's path"])
async def test_run_with_refused_order_never_starts(web, process, smoke, monkeypatch, how, before):
    path, fields = order_by(how)
    # what is lost is the answer of the whole transaction: the API creates a run and those of its variants in one
    module, name = (evals_api, "order_with_variants") if how == "API" else (runs, "create_run")
    monkeypatch.setattr(module, name, fail_with_lost_store(1, getattr(module, name), before=before))
    assert await post(web, how, path, fields) == 503
    async with asyncio.timeout(PATIENCE_S):
        assert await statuses_but_active() == ([] if before else ["cancelled"])
    assert process.asked == []

    assert await post(web, how, path, fields) < 400
    assert (await statuses_but_active())[-1] == "done"
    assert len(process.asked) == 1


@pytest.mark.parametrize("before", [True, False], ids=["nothing was stored", "the answer was lost"])
@pytest.mark.parametrize("how", ["page", "API"])
async def test_repeated_run_with_refused_order_never_starts(web, process, play, monkeypatch, how, before):
    run = await play(ONE, fine)
    monkeypatch.setattr(runs, "create_run", fail_with_lost_store(1, runs.create_run, before=before))
    path = f"/evals/runs/{run.id}/again/" if how == "page" else f"/api/v1/evals/runs/{run.id}/again"
    assert await post(web, how, path, {}) == 503
    async with asyncio.timeout(PATIENCE_S):
        assert await statuses_but_active() == ["done", *([] if before else ["cancelled"])]
    assert process.asked == []


@pytest.mark.parametrize("before", [True, False], ids=["nothing was stored", "the answer was lost"])
@pytest.mark.parametrize("how", ["page", "API"])
async def test_run_resumes_once_despite_lost_response(web, process, folder, smoke, monkeypatch, how, before):
    process.source = replace(process.source, code_version=folder.code_version("counter"))
    assert await post(web, "API", *order_by("API")) == 202
    assert await statuses_but_active() == ["done"]
    run = await units_of_work.read(EvalRun.objects.get)
    monkeypatch.setattr(rerun, "retry", fail_with_lost_store(1, rerun.retry, before=before))
    path = f"/evals/runs/{run.id}/retry/" if how == "page" else f"/api/v1/evals/runs/{run.id}/retry"
    assert await post(web, how, path, {}) == 503
    async with asyncio.timeout(PATIENCE_S):
        assert await statuses_but_active() == ["done"] * (1 if before else 2)
    assert len(process.asked) == (1 if before else 2)


async def test_run_begins_though_the_client_left_while_it_was_ordered(process, smoke, folder, monkeypatch):
    write_begun = threading.Event()

    def create(run_id: str) -> EvalRun:
        assert write_begun.wait(PATIENCE_S)
        return run_orders.order_run(
            library.register_file(folder, "counter", smoke), RunOrder(config.default_config()), run_id
        )

    await cancel_while_writing(asyncio.create_task(dispatch.create_and_deliver(create)), write_begun)
    async with asyncio.timeout(PATIENCE_S):
        while not await units_of_work.read(EvalRun.objects.filter(status=EvalRun.Status.DONE).exists):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert len(process.asked) == 1


async def test_stored_order_is_acknowledged_when_the_store_is_back(web, process, smoke, monkeypatch):
    monkeypatch.setattr(run_json, "run_facts", fail_with_lost_store(3, run_json.run_facts, before=True))
    assert await post(web, "API", *order_by("API")) == 202
    assert await statuses_but_active() == ["done"]
