"""Resumed runs: after a crash, a cancellation or a limit, and repeated failed attempts."""

from __future__ import annotations

import asyncio
import json

import pytest

from evals_app.analysis import case_matrix, repetitions, run_summary, trends
from evals_app.execution.run_execution import execute_run
from evals_app.files import library
from evals_app.metrics import config
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status, progress, rerun, run_orders
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.rerun import EvalRunActive, HasChanged
from evals_app.runs.spending import spending_since
from evals_app.runs.writes import crashes, runs
from evals_app.runs.writes.attempts import (
    CANCELLED_BY_USER,
    finish_attempt,
    request_cancel_attempt,
    start_attempt,
)
from evals_app.runs.writes.model_usage import with_spending
from evals_app.runs.writes.runs import crash_run
from sessions_app.agent_processes import processes
from sessions_app.prices import Price, Prices
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import AgentSession, Event, ModelCall
from sessions_app.store.sessions.writes import SessionKey, create_session
from tests.evals import agents
from tests.evals.builders import case, evalset, turn, write

Status = EvalAttempt.Status


def three(*says):
    return evalset(
        *[case(f"c{number}", turn(answer_text, "fine")) for number, answer_text in enumerate(says)]
    )


def by_case(run):
    return {attempt.case_id: attempt for attempt in run.attempts.order_by("case_index", "repetition")}


async def fresh(run):
    return await units_of_work.read(EvalRun.objects.select_related("evalset", "version").get, pk=run.id)


async def go_on(run, folder, answer, **more):
    agent = agents.Scripted(name="counter", answer=answer)
    await execute_run(run.id, agents.Source(agent, folder=folder, **more), asyncio.Event())
    return await fresh(run)


@pytest.fixture
async def crashed_run(play, folder):
    """A run whose process died: one attempt had passed, one was in flight, one waited."""
    agent = agents.Hanging()

    async def die():
        await agent.hangs.wait()
        run_id = await units_of_work.read(EvalRun.objects.values_list("pk", flat=True).get)
        await units_of_work.write(crash_run, run_id, "It was killed.")

    dead = asyncio.create_task(die())
    run = await play(three("go", "hang", "go"), agent.answer, parallelism=1)
    await dead
    return run


async def test_resuming_keeps_ended_attempts_and_marks_in_flight_ones(crashed_run, folder):
    before = await units_of_work.read(by_case, crashed_run)
    assert [attempt.status for attempt in before.values()] == [Status.PASSED, Status.ERROR, Status.CANCELLED]
    assert before["c2"].stopped_because == "The process that ran it ended before this attempt began."

    await units_of_work.write(rerun.resume, crashed_run)
    run = await go_on(crashed_run, folder, lambda ctx, text: "fine", code_version=crashed_run.code_version)
    after = await units_of_work.read(by_case, run)
    assert (run.status, run.resumed, run.passed, run.errors, run.cancelled) == ("done", 1, 3, 0, 0)
    assert {name: attempt.tries for name, attempt in after.items()} == {"c0": 1, "c1": 2, "c2": 1}
    assert after["c0"].finished_at == before["c0"].finished_at
    assert after["c1"].stopped_because == after["c2"].stopped_because == after["c1"].error == ""
    [tried] = after["c1"].earlier_tries
    assert (tried["try"], tried["status"], tried["why"]) == (1, "error", rerun.WAS_IN_FLIGHT)
    assert tried["realm"] != after["c1"].realm
    assert tried["session"] != after["c1"].session_id is not None


async def test_leftovers_of_a_dead_process_count_in_no_pass_rate(crashed_run):
    def rates():
        point = trends.read_evalset_trend(crashed_run.evalset).points[0]
        return (
            point.rate,
            repetitions.read_case_repetitions(crashed_run, 1).rate,
            case_matrix.tally(crashed_run).rate,
        )

    trend, of_case, of_run = await units_of_work.read(rates)
    assert (trend.total, of_case.total, of_run.total) == (1, 0, 1)


async def test_pending_attempts_run_before_in_flight_ones_of_dead_process(crashed_run, folder):
    requests = []
    await units_of_work.write(rerun.resume, crashed_run)
    run = await go_on(
        crashed_run,
        folder,
        lambda ctx, text: requests.append(text) or "fine",
        code_version=crashed_run.code_version,
    )
    assert (run.status, requests) == ("done", ["go", "hang"])


async def test_another_try_starts_in_a_world_of_its_own(play, folder):
    run = await play(three("go"), agents.count, config={"response_match_score": 1.0})
    await units_of_work.write(
        lambda: run.attempts.update(status=Status.ERROR, error_type=attempt_status.MODEL_UNAVAILABLE)
    )
    await units_of_work.write(rerun.retry, run)
    run = await go_on(run, folder, agents.count)
    attempt = await units_of_work.read(run.attempts.get)
    assert attempt.tries == 2
    assert "count 1" in attempt.actual

    def realms():
        return set(AgentSession.objects.values_list("realm", flat=True))

    assert await units_of_work.read(realms) == {attempt.realm, attempt.earlier_tries[0]["realm"]}


async def test_only_failed_and_erred_attempts_are_retried(play, folder):
    def answer(ctx, text):
        if text == "break":
            raise RuntimeError("on fire")
        return "fine" if text == "go" else "wrong"

    run = await play(three("go", "miss", "break"), answer)
    assert (run.passed, run.failed, run.errors) == (1, 1, 1)
    progress_now = await units_of_work.read(progress.read_progress, run)
    assert (progress_now.can_resume, progress_now.can_retry, progress_now.not_passed) == (False, True, 2)

    requests = []

    def better(ctx, user_text):
        requests.append(user_text)
        return "fine"

    [retry] = await units_of_work.write(rerun.retry, run)
    retry = await go_on(retry, folder, better)
    assert sorted(requests) == ["break", "miss"]
    assert (retry.passed, retry.total) == (2, 2)
    run = await fresh(run)
    assert (run.passed, run.failed, run.errors, run.finished) == (1, 1, 1, 3)


async def test_one_attempt_is_retried_whatever_its_outcome(play, folder):
    run = await play(three("go", "go"), lambda ctx, text: "fine")
    first = (await units_of_work.read(by_case, run))["c0"]
    [retry] = await units_of_work.write(rerun.retry, run, [first.pk])
    retry = await go_on(retry, folder, lambda ctx, user_text: "fine")
    assert list(await units_of_work.read(by_case, retry)) == ["c0"]


async def test_unresumable_run_is_refused(play, folder, crashed_run):
    with pytest.raises(HasChanged, match="changed from v1 to"):
        await units_of_work.write(rerun.resume, crashed_run, folder)
    await units_of_work.write(rerun.resume, crashed_run)
    with pytest.raises(EvalRunActive):
        await units_of_work.write(rerun.retry, crashed_run)
    done = await go_on(crashed_run, folder, lambda ctx, text: "fine")
    with pytest.raises(BadInput, match="no unfinished attempts"):
        await units_of_work.write(rerun.resume, done)
    with pytest.raises(BadInput, match="failed or erred"):
        await units_of_work.write(rerun.retry, done)
    with pytest.raises(NotFound):
        await units_of_work.write(rerun.retry, done, [10**9])


async def test_a_run_does_not_go_on_with_another_agent(crashed_run, folder):
    await units_of_work.write(rerun.resume, crashed_run)
    run = await go_on(crashed_run, folder, lambda ctx, text: "fine", code_version="v2")
    assert (run.status, run.error_type, run.passed) == ("failed", "HasChanged", 1)
    assert "its code changed from v1 to v2" in run.error
    assert (await units_of_work.read(progress.read_progress, run)).unfinished == 2


async def test_a_run_is_repeated_exactly(play, folder):
    first = await play(
        three("go", "go", "go"),
        lambda ctx, text: "fine",
        case_ids=["c2", "c0"],
        num_runs=2,
        parallelism=3,
        limits=EvalRunLimits(tokens=5),
    )
    second = await go_on(
        await units_of_work.write(rerun.repeat, first), folder, lambda ctx, user_text: "fine"
    )
    same = ("version_id", "config", "case_ids", "num_runs", "parallelism", "limits", "policy", "prices")
    assert [getattr(first, name) for name in same] == [getattr(second, name) for name in same]
    assert (second.repeats_id, second.passed, second.total) == (first.id, 4, 4)
    assert list(await units_of_work.read(by_case, second)) == ["c0", "c2"]


async def test_one_attempt_is_cancelled_without_the_others(play):
    agent = agents.Hanging()

    async def cancel():
        await agent.hangs.wait()
        for name in ("c0", "c2"):  # one that runs, one that waits
            pk = await units_of_work.read(EvalAttempt.objects.values_list("pk", flat=True).get, case_id=name)
            assert await units_of_work.write(request_cancel_attempt, pk)

    cancelling = asyncio.create_task(cancel())
    run = await play(three("hang", "go", "go"), agent.answer, parallelism=1)
    await cancelling
    attempts = await units_of_work.read(by_case, run)
    assert (run.status, run.passed, run.cancelled) == ("done", 1, 2)
    assert attempts["c0"].stopped_because == attempts["c2"].stopped_because == CANCELLED_BY_USER
    assert attempts["c0"].session_id is not None
    progress_now = await units_of_work.read(progress.read_progress, run)
    assert not progress_now.can_resume  # a person wanted them to stop
    assert not await units_of_work.write(request_cancel_attempt, attempts["c1"].pk)


async def test_parallelism_changes_during_a_run(play):
    together, most, widened = set(), [0], asyncio.Event()

    async def answer(ctx, text):
        together.add(text)
        most[0] = max(most[0], len(together))
        if len(together) == 3:
            widened.set()
        await widened.wait()
        together.discard(text)
        return "fine"

    async def widen():
        while not together:  # noqa: ASYNC110 - only the agent knows
            await asyncio.sleep(0.01)
        assert most == [1]
        run_id = await units_of_work.read(EvalRun.objects.values_list("pk", flat=True).get)
        assert await units_of_work.write(runs.set_parallelism, run_id, 3)

    widening = asyncio.create_task(widen())
    run = await play(three("a", "b", "c"), answer, parallelism=1)
    await widening
    assert (run.passed, most, run.parallelism) == (3, [3], 3)
    assert not await units_of_work.write(runs.set_parallelism, run.id, 5)


async def test_an_agent_that_hangs_ends_with_its_time_and_the_others_go_on(play):
    messages = []
    run = await play(
        three("hang", "go"),
        agents.Hanging().answer,
        parallelism=1,
        limits=EvalRunLimits(attempt_seconds=0.2),
        progress=lambda attempt, outcome: messages.append((attempt.case_id, outcome and outcome.status)),
    )
    attempts = await units_of_work.read(by_case, run)
    assert (run.status, run.passed, run.errors) == ("done", 1, 1)
    assert set(messages) == {("c0", None), ("c0", "error"), ("c1", None), ("c1", "passed")}
    assert attempts["c0"].error_type == "AttemptTooLong"
    assert "0.2 seconds" in attempts["c0"].error
    assert attempts["c0"].session_id is not None


async def test_a_metric_that_hangs_is_named_and_not_the_agent(play):
    config = {
        "criteria": {"mine": 0.5},
        "custom_metrics": {"mine": {"code_config": {"name": "tests.evals.own_metrics.hangs"}}},
    }
    run = await play(three("go"), lambda ctx, text: "fine", config, limits=EvalRunLimits(attempt_seconds=2.0))
    attempts = await units_of_work.read(by_case, run)
    assert (run.status, run.errors) == ("done", 1)
    assert attempts["c0"].error.endswith("The agent had answered: mine was judging it.")


async def test_an_agent_that_exits_ends_its_attempt_alone(play):
    def answer(ctx, text):
        if text == "exit":
            raise SystemExit(3)
        return "fine"

    run = await play(three("exit", "go"), answer, parallelism=1)
    attempts = await units_of_work.read(by_case, run)
    assert (run.status, run.passed, run.errors) == ("done", 1, 1)
    assert attempts["c0"].error == "The agent called sys.exit(3)."


@pytest.mark.parametrize("kind", [BaseException, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
async def test_agent_raising_base_exception_ends_only_its_attempt(play, kind):
    def answer(ctx, text):
        if text == "raise":
            raise kind("no more")
        return "fine"

    run = await play(three("raise", "go", "go"), answer, parallelism=1)
    attempts = await units_of_work.read(by_case, run)
    assert (run.status, run.passed, run.errors) == ("done", 2, 1)
    assert (attempts["c0"].error_type, attempts["c0"].error) == (kind.__name__, "no more")


async def test_run_stops_at_time_limit_and_marks_remaining_attempts(play):
    async def answer(ctx, text):
        await asyncio.sleep(3600 if text == "hang" else 0)
        return "fine"

    run = await play(three("go", "hang", "go"), answer, parallelism=1, limits=EvalRunLimits(seconds=4))
    attempts = await units_of_work.read(by_case, run)
    assert (run.status, run.passed, run.cancelled) == ("stopped", 1, 2)
    assert run.stopped_because == "The limit of 4 seconds was reached."
    assert attempts["c1"].stopped_because == attempts["c2"].stopped_because == run.stopped_because
    progress_now = await units_of_work.read(progress.read_progress, run)
    assert (progress_now.can_resume, progress_now.unfinished, progress_now.cut_off) == (True, 2, 1)


async def test_run_stops_at_token_limit_and_resume_resets_it(play, folder):
    requests: list[str] = []
    is_first_run = True

    async def answer(ctx, text):
        requests.append(text)
        if is_first_run and len(requests) == 3:
            await asyncio.Event().wait()  # begun before the run has seen that the limit is reached
        event = agents.writes("fine")
        event.usage_metadata = agents.tokens(10)
        return event

    run = await play(three("a", "b", "c"), answer, parallelism=1, limits=EvalRunLimits(tokens=15))
    assert (run.status, run.passed, run.cancelled) == ("stopped", 2, 1)
    assert run.stopped_because == "The limit of 15 tokens was reached: 20 were spent."
    is_first_run = False
    await units_of_work.write(rerun.resume, run)
    run = await go_on(run, folder, answer)
    assert (run.status, run.passed, run.stopped_because, run.resumed) == ("done", 3, "", 1)


async def test_cost_limit_that_cannot_be_checked_stops_the_run(play):
    def answer(ctx, text):
        event = agents.writes("fine")
        event.usage_metadata = agents.tokens(10)
        return event

    run = await play(three("a", "b"), answer, parallelism=1, limits=EvalRunLimits(cost=1.0))
    assert run.status == "stopped"
    why = "The limit of 1 USD cannot be enforced: an unrecorded model used tokens."
    assert run.stopped_because == why


PRICED = Prices((Price(model="priced", input=2.0, output=8.0),), "EUR", "prices.toml")


async def test_calls_of_attempts_in_flight_count_by_their_prices(play):
    """A million tokens in and half a million out are spent before the attempt ends."""
    agent, stopped = agents.Hanging(), asyncio.Event()

    def spend(model):
        attempt = EvalAttempt.objects.get(status=Status.RUNNING)
        ModelCall.objects.create(
            session=AgentSession.objects.get(realm=attempt.realm),
            ref=model,
            invocation_id="i",
            number=1,
            model=model,
            started_at=1.0,
            finished_at=2.0,
            prompt_tokens=1_000_000,
            output_tokens=400_000,
            thought_tokens=100_000,
        )
        run = attempt.run
        return spending_since(run, [attempt], 0.0, EvalRunLimits(cost=5.0), PRICED)

    async def look():
        await agent.hangs.wait()
        try:
            calls.append(await units_of_work.write(spend, "priced"))
            calls.append(await units_of_work.write(spend, "other"))
        finally:
            stopped.set()

    calls = []
    looking = asyncio.create_task(look())
    await play(three("hang"), agent.answer, cancelled=stopped)
    await looking
    assert [(spending.cost, spending.unpriced) for spending in calls] == [(6.0, ()), (None, ("other",))]
    assert (
        EvalRunLimits(cost=5.0).describe_reached(1.0, calls[0])
        == "The limit of 5 EUR was reached: the attempts cost 6 EUR."
    )
    assert EvalRunLimits(cost=7.0).describe_reached(1.0, calls[0]) == ""
    unpriced = "The limit of 5 EUR cannot be enforced: there is no price for other."
    assert EvalRunLimits(cost=5.0).describe_reached(1.0, calls[1]) == unpriced


@pytest.fixture
def in_flight(order_of_three):
    """An attempt in flight that has asked a priced model for a million tokens, in a run with a price table."""
    EvalRun.objects.update(prices=json.dumps(PRICED.as_json()))
    run = EvalRun.objects.get()
    runs.claim_run(run.id, None)
    attempt = start_attempt(run.attempts.get(case_id="c0").pk)
    session = create_session(SessionKey(attempt.realm, "counter", "u", "s"))
    AgentSession.objects.filter(pk=session.pk).update(total_tokens=1_000_000)
    ModelCall.objects.create(
        session=session,
        ref="r",
        invocation_id="i",
        number=1,
        model="priced",
        started_at=1.0,
        finished_at=3.0,
        prompt_tokens=500_000,
        output_tokens=500_000,
        total_tokens=1_000_000,
    )
    return attempt


@pytest.fixture
def order_of_three(db, folder):
    """A pending run of three cases."""
    path = write(folder.path, "set.evalset.json", three("a", "b", "c"))
    return run_orders.order_run(
        library.register_file(folder, "counter", path), run_orders.RunOrder(config.default_config())
    )


def cancelled_by_hand(attempt):
    finish_attempt(attempt.pk, with_spending(attempt, status="cancelled"))


def cut_off_with_its_run(attempt):
    runs.finish_run(attempt.run_id, EvalRun.Status.STOPPED, because="The limit was reached.")


def left_by_a_dead_process(attempt):
    crash_run(attempt.run_id, "The power failed.")


@pytest.mark.parametrize("ended", [cancelled_by_hand, cut_off_with_its_run, left_by_a_dead_process])
def test_usage_of_interrupted_attempt_is_known_by_model(in_flight, ended):
    ended(in_flight)
    in_flight.refresh_from_db()
    assert (in_flight.prompt_tokens, in_flight.output_tokens, in_flight.total_tokens) == (
        500_000,
        500_000,
        1_000_000,
    )
    assert (in_flight.cost, in_flight.model_seconds) == (5.0, 2.0)
    assert list(json.loads(in_flight.by_model)) == ["priced"]
    spending = spending_since(in_flight.run, [], 0.0, EvalRunLimits(cost=100.0), PRICED)
    assert (spending.cost, spending.tokens) == (5.0, 1_000_000)
    assert run_summary.summary(in_flight.run).usage.cost == 5.0


def test_cost_is_unknown_if_a_process_died_before_its_records(in_flight):
    AgentSession.objects.update(total_tokens=1_000_001)
    left_by_a_dead_process(in_flight)
    in_flight.refresh_from_db()
    assert (in_flight.cost, in_flight.total_tokens) == (None, 1_000_001)


def test_usage_of_tries_in_dead_processes_counts_towards_limits(in_flight):
    processes.register("p" * 32, "counter", 1, "v1")
    EvalRun.objects.update(runtime_id="p" * 32)
    EvalAttempt.objects.update(runtime_id="p" * 32)
    assert crashes.continue_without_process("p" * 32, crashes.ProcessDeath("exit status 3")) == [
        in_flight.run_id
    ]
    limits = EvalRunLimits(tokens=1, cost=1.0)
    spending = spending_since(in_flight.run, [], in_flight.started_at - 1.0, limits, PRICED)
    assert (spending.tokens, spending.cost) == (1_000_000, 5.0)
    assert spending_since(in_flight.run, [], in_flight.started_at + 1.0, limits, PRICED).tokens == 0


def test_remaining_time_is_estimated_from_ended_attempts():
    assert progress.time_left(2.0, 10, [], 2) == 10.0
    assert progress.time_left(2.0, 0, [0.5, 3.0], 4) == 1.5
    assert progress.time_left(2.0, 1, [5.0, 5.0], 2) == 1.0
    assert progress.time_left(2.0, 0, [2.5, 3.0], 4) is None
    assert [progress.format_estimate(seconds) for seconds in (0.4, 89.0, 91.0)] == ["0 s", "89 s", "2 min"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"retry_seconds": -1}, "retry seconds must be a positive number"),
        ({"seconds": 0}, "seconds must be a positive number"),
        ({"tokens": 1.5}, "tokens must be a positive whole number"),
        ({"cost": "much"}, "cost must be a positive number, not 'much'"),
        ({"money": 1}, "There is no limit 'money'"),
        ({"seconds": "inf"}, "positive number"),
    ],
)
def test_invalid_limits_are_refused(value, message):
    with pytest.raises(BadInput, match=message):
        EvalRunLimits.of(value)


def test_limits_are_parsed_as_written():
    limits = EvalRunLimits.of({"seconds": "90", "tokens": "1000", "cost": "", "attempt_seconds": None})
    assert limits == EvalRunLimits(90.0, 1000, None, None) == EvalRunLimits.read(json.dumps(limits.as_json()))
    assert EvalRunLimits().as_json() == {"attempt_seconds": 1800.0, "retry_seconds": 120.0}
    assert EvalRunLimits.of({"retry_seconds": "0"}).retry_seconds == 0


async def test_events_of_a_try_that_was_left_behind_stay_in_its_own_world(play, folder, crashed_run):
    await units_of_work.write(rerun.resume, crashed_run)
    run = await go_on(crashed_run, folder, lambda ctx, text: "fine")
    attempt = (await units_of_work.read(by_case, run))["c1"]

    def events(realm):
        return Event.objects.filter(session__realm=realm).count()

    assert await units_of_work.read(events, attempt.earlier_tries[0]["realm"]) == 1  # what the user said
    assert await units_of_work.read(events, attempt.realm) == 2
