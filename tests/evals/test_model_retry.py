"""Calls of unavailable models, judges and simulated users are retried; without success there is no outcome."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import errors, types

from evals_app.analysis import baselines, case_matrix, repetitions, trends
from evals_app.analysis.ci_gate import Gate
from evals_app.execution import _adk, model_retry
from evals_app.execution.model_errors import is_temporary
from evals_app.execution.model_retry import RetriedCall, Retries
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.attempt_status import JUDGE_TOO_LONG, MODEL_UNAVAILABLE
from evals_app.runs.limits import EvalRunLimits
from sessions_app.store.database import units_of_work
from sessions_app.store.models import ModelCall
from tests.evals.builders import case, evalset, turn
from tests.evals.refused_models import (
    SOON,
    Fails,
    agent,
    client_error,
    gemini,
    judge_config,
    refusal,
    talks,
)

Status = EvalAttempt.Status

BRIEFLY = EvalRunLimits(retry_seconds=0.3)
SAID = {"candidates": [{"content": {"role": "model", "parts": [{"text": "fine"}]}, "finishReason": "STOP"}]}
CALLED = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"functionCall": {"name": "count", "args": {}}}]},
            "finishReason": "STOP",
        }
    ]
}


ONE = evalset(case("a", turn("go", "fine")))


async def attempt_of(run):
    return await units_of_work.read(run.attempts.get)


async def test_rate_limited_call_is_repeated_without_its_tools(play, service):
    counted = []

    def count() -> str:
        """Count."""
        counted.append(1)
        return "counted"

    service.answers = [
        refusal(429),
        (200, CALLED, {}),
        refusal(503),
        refusal(429),
        ("hang up", None, {}),
        (200, SAID, {}),
    ]
    run = await play(ONE, agent(gemini(service), tools=[count]))
    attempt = await attempt_of(run)
    assert (attempt.status, attempt.error) == (Status.PASSED, "")
    assert (service.request_count, counted) == (6, [1])
    assert attempt.waited_seconds >= 0.06
    assert await units_of_work.read(ModelCall.objects.filter(error_type="").count) == 2
    assert await units_of_work.read(ModelCall.objects.count) == 2


async def test_permanently_refused_model_is_an_error_without_outcome(play, service):
    service.answers = [refusal(429) for _ in range(100)]
    run = await play(ONE, agent(gemini(service)), limits=BRIEFLY)
    attempt = await attempt_of(run)
    assert (run.status, run.errors, run.failed) == ("done", 1, 0)
    assert attempt.error_type == MODEL_UNAVAILABLE
    first, second = attempt.error.splitlines()
    assert first == "gemini-2.5-flash could not be asked: 429: Slow down."
    assert re.fullmatch(
        rf"It was asked {service.request_count} times in \d+ seconds; retry_seconds is 0\.3\.", second
    )
    assert service.request_count > 1
    assert attempt.cause == "ModelUnavailable: gemini-2.5-flash could not be asked: 429: Slow down."


async def test_invalid_request_is_not_retried(play, service):
    service.answers = [refusal(400, "No such field.")]
    attempt = await attempt_of(await play(ONE, agent(gemini(service))))
    assert (attempt.error_type, service.request_count) == ("ClientError", 1)


async def test_error_after_refusal_is_the_reported_one(play):
    model = Fails(model="fails", left=[client_error(429), ValueError("no such tool")])
    attempt = await attempt_of(await play(ONE, agent(model)))
    assert (attempt.error_type, attempt.error, model.request_count) == ("ValueError", "no such tool", 2)


async def test_retries_can_be_disabled(play):
    model = Fails(model="fails", left=[client_error(429)])
    attempt = await attempt_of(await play(ONE, agent(model), limits=EvalRunLimits(retry_seconds=0)))
    assert (attempt.error_type, model.request_count) == (MODEL_UNAVAILABLE, 1)


async def test_too_long_wait_is_not_started(play):
    model = Fails(model="fails", left=[client_error(429, {"Retry-After": "3600"})])
    attempt = await attempt_of(await play(ONE, agent(model)))
    assert (attempt.error_type, attempt.waited_seconds) == (MODEL_UNAVAILABLE, 0.0)


async def test_callbacks_of_the_agent_hear_of_an_error_that_stays_only(play):
    errors = []

    def fall_back(callback_context, llm_request, error):
        errors.append(error.code)
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="fine")]))

    model = Fails(model="fails", left=[client_error(429)], says="fine")
    run = await play(ONE, agent(model, on_model_error_callback=fall_back))
    assert (run.passed, errors) == (1, [])

    model = Fails(model="fails", left=[client_error(429, {"Retry-After": "3600"})])
    run = await play(ONE, agent(model, on_model_error_callback=fall_back))
    assert (run.passed, errors) == (1, [429])


async def test_an_agent_that_fails_as_its_model_stayed_away_has_not_failed(play):
    def excuse(callback_context, llm_request, error):
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Sorry.")]))

    model = Fails(model="fails", left=[client_error(503, {"Retry-After": "3600"})])
    attempt = await attempt_of(await play(ONE, agent(model, on_model_error_callback=excuse)))
    assert (attempt.status, attempt.error_type) == (Status.ERROR, MODEL_UNAVAILABLE)
    assert await units_of_work.read(attempt.results.filter(invocation=None, status="failed").count) == 1


async def test_refused_judge_is_retried(play, judge):
    judge["errors"] = [client_error(429), client_error(503), httpx.ReadTimeout("too slow")]
    judge["errors"][2].headers = SOON
    run = await play(ONE, talks, judge_config())
    attempt = await attempt_of(run)
    assert (run.passed, judge["calls"]) == (1, 4)
    assert attempt.waited_seconds >= 0.06


@pytest.mark.parametrize("metric", ["final_response_match_v2", "hallucinations_v1"])
async def test_a_judge_that_stays_unavailable_is_an_error_and_no_verdict(play, judge, metric):
    judge["errors"] = [client_error(429) for _ in range(100)]
    config = judge_config()
    config["criteria"] = {metric: config["criteria"]["final_response_match_v2"]}
    run = await play(ONE, talks, config, limits=BRIEFLY)
    attempt = await attempt_of(run)
    assert (attempt.status, attempt.error_type) == (Status.ERROR, MODEL_UNAVAILABLE)
    assert attempt.error.startswith("The judge: failing-judge could not be asked: 429: Slow down.")
    overall = await units_of_work.read(attempt.results.get, metric=metric, invocation=None)
    assert (overall.status, overall.score) == ("not_evaluated", None)
    assert "could not be asked: 429" in overall.reason


async def test_other_metrics_score_without_the_judge(play, judge):
    judge["errors"] = [client_error(429, {"Retry-After": "3600"})]
    run = await play(evalset(case("a", turn("go", "other"))), talks, judge_config(response_match_score=1.0))
    assert (run.failed, run.errors) == (1, 0)


async def test_a_judge_that_exits_is_not_blamed_on_the_agent(play, judge):
    judge["errors"] = [SystemExit(3)]
    attempt = await attempt_of(await play(ONE, talks, judge_config()))
    assert (attempt.status, attempt.error_type) == (Status.INCOMPLETE, "")
    overall = await units_of_work.read(attempt.results.get, metric="final_response_match_v2", invocation=None)
    assert "failing-judge called sys.exit(3)." in overall.reason


async def test_simulated_user_is_retried_then_given_up(play, judge):
    scenario = {"starting_prompt": "hi", "conversation_plan": "Say hi twice."}
    document = evalset({"eval_id": "s", "conversation_scenario": scenario})
    config = {
        "criteria": {"final_response_match_v2": 0.5},
        "user_simulator_config": {"model": "failing-judge", "max_allowed_invocations": 2},
    }
    judge["errors"] = [client_error(503, {"Retry-After": "3600"})]
    attempt = await attempt_of(await play(document, talks, config))
    assert attempt.error_type == MODEL_UNAVAILABLE
    assert attempt.error.startswith("The simulated user: failing-judge could not be asked: 503")


async def test_a_cancelled_run_waits_no_longer(play):
    model = Fails(model="fails", left=[client_error(429, {"Retry-After": "100"})])
    run_id, reports = [], []
    cancelled = asyncio.Event()

    def progress(attempt, outcome):
        if outcome is None and attempt.waits_for:
            reports.append(attempt.waits_for)
            run_id.append(attempt.run_id)
            cancelled.set()

    began = time.monotonic()
    run = await play(ONE, agent(model), cancelled=cancelled, progress=progress)
    assert (run.status, run.cancelled) == (EvalRun.Status.CANCELLED, 1)
    assert time.monotonic() - began < 20
    assert reports[0].startswith("fails could not be asked: 429: Slow down. It is asked again after 1")


async def test_an_attempt_that_ends_while_it_waits_has_no_outcome(play):
    model = Fails(model="fails", left=[client_error(429, {"Retry-After": "100"})])
    attempt = await attempt_of(await play(ONE, agent(model), limits=EvalRunLimits(attempt_seconds=2)))
    assert attempt.error_type == MODEL_UNAVAILABLE
    assert "could not be asked: 429" in attempt.error
    assert "within 2 seconds" in attempt.error


async def test_attempt_with_refused_judge_has_no_outcome(play):
    config = {
        "criteria": {"mine": 0.5},
        "custom_metrics": {"mine": {"code_config": {"name": "tests.evals.own_metrics.hangs"}}},
    }
    attempt = await attempt_of(await play(ONE, talks, config, limits=EvalRunLimits(attempt_seconds=0.2)))
    assert attempt.error_type == JUDGE_TOO_LONG
    assert attempt.error.endswith("The agent had answered: mine was judging it.")


async def test_page_shows_reason_of_waiting_attempt(play, web):
    model = Fails(model="fails", left=[client_error(429, {"Retry-After": "100"})])
    waiting, cancelled = asyncio.Event(), asyncio.Event()

    def progress(attempt, outcome):
        if attempt.waits_for:
            waiting.set()

    playing = asyncio.create_task(play(ONE, agent(model), cancelled=cancelled, progress=progress))
    await asyncio.wait({playing, asyncio.ensure_future(waiting.wait())}, return_when=asyncio.FIRST_COMPLETED)
    run = await units_of_work.read(EvalRun.objects.get)
    page = (await web.get(f"/evals/runs/{run.pk}/")).content.decode()
    cancelled.set()
    await playing
    assert "1 waits for a model" in page
    assert "fails could not be asked: 429: Slow down." in page


async def test_refused_attempts_count_in_no_rate_or_test(play):
    document = evalset(*[case(f"c{number}", turn("go", "fine")) for number in range(3)])
    before = await play(document, talks, num_runs=2)
    model = Fails(
        model="fails", left=[client_error(429, {"Retry-After": "3600"}) for _ in range(2)], says="fine"
    )
    after = await play(document, agent(model), num_runs=2, parallelism=1)
    only = await play(
        document,
        agent(Fails(model="fails", left=[client_error(429, {"Retry-After": "3600"}) for _ in range(6)])),
        num_runs=2,
    )

    def check():
        assert (after.passed, after.errors, after.failed) == (4, 2, 0)
        tally = case_matrix.tally(after)
        assert (tally.rate.passed, tally.rate.total, tally.flaky) == (2.0, 2, 0)
        assert repetitions.read_case_repetitions(after, 0).rate.total == 0
        point = next(
            item for item in trends.read_evalset_trend(after.evalset).points if item.run.pk == after.pk
        )
        assert (point.rate.passed, point.rate.total) == (2.0, 2)
        compared = baselines.compare_runs(before, after)
        assert {case.key.id: str(case.verdict) for case in compared.cases} == {
            "c0": "not comparable",
            "c1": "not comparable",
            "c2": "not comparable",
        }
        assert compared.whole.refusal.startswith("2 of 6 attempts of the run after have no outcome")
        assert compared.regressions == []
        later = EvalRun(
            evalset=only.evalset, version=only.version, config=only.config, created_at=time.time()
        )
        assert baselines.find_reference(later).runs == [before], "runs that lost attempts are passed over"
        result = Gate(before.pk, "regression").judge(after)
        [reason] = result.fails
        assert reason.startswith(
            "2 of 6 attempts have no outcome: a model, a judge or the database failed. The first: fails could"
        )

    await units_of_work.read(check)


async def test_a_case_that_passed_but_for_a_refusal_is_not_flaky(play):
    document = evalset(case("a", turn("go", "fine")))
    model = Fails(model="fails", left=[client_error(429, {"Retry-After": "3600"})], says="fine")
    run = await play(document, agent(model), num_runs=3, parallelism=1)

    def check():
        matrix = case_matrix.matrix(run)
        assert (run.passed, run.errors) == (2, 1)
        assert (matrix.flaky, matrix.rows[0].is_flaky, matrix.rows[0].rate.total) == (0, False, 2)
        assert not repetitions.read_case_repetitions(run, 0).flaky

    await units_of_work.read(check)


async def test_refused_attempts_can_be_retried(play):
    from evals_app.runs import rerun

    model = Fails(model="fails", left=[client_error(429, {"Retry-After": "3600"})], says="fine")
    run = await play(ONE, agent(model))
    await units_of_work.write(rerun.retry, run)
    attempt = await attempt_of(run)
    assert (attempt.status, attempt.waits_for, attempt.waited_seconds) == (Status.PENDING, "", 0.0)


class WithStatus(Exception):
    def __init__(self, status_code, cause=None):
        super().__init__("no")
        self.status_code = status_code
        self.__cause__ = cause


class Without(Exception):
    def __init__(self, cause):
        super().__init__("Connection error.")
        self.__cause__ = cause


@pytest.mark.parametrize(
    ("error", "temporary"),
    [
        (client_error(429), True),
        (client_error(503), True),
        (client_error(400), False),
        (client_error(403), False),
        (WithStatus(429), True),
        (WithStatus(401), False),
        (WithStatus(400, ConnectionError()), False),
        (httpx.ConnectTimeout(""), True),
        (httpx.ConnectError(""), True),
        (httpx.UnsupportedProtocol(""), False),
        (Without(httpx.ReadTimeout("")), True),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (ValueError(), False),
        (OSError(), False),
    ],
    ids=repr,
)
def test_which_errors_may_be_over_soon(error, temporary):
    assert is_temporary(error) is temporary


def test_client_retries_are_off_unless_the_agent_sets_them():
    request = LlmRequest(config=types.GenerateContentConfig())
    _adk.retrying.add_default_retry_options_if_not_present(request)
    _adk.disable_client_retries(request)
    assert request.config.http_options.retry_options.attempts == 1
    own = types.HttpRetryOptions(attempts=3)
    request = LlmRequest(
        config=types.GenerateContentConfig(http_options=types.HttpOptions(retry_options=own))
    )
    _adk.disable_client_retries(request)
    assert request.config.http_options.retry_options == own


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}


def test_a_wait_is_as_long_as_the_service_asks_else_ever_longer():
    waits = [model_retry.seconds_before_retry(WithStatus(503), tries) for tries in range(1, 8)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert model_retry.seconds_before_retry(client_error(429, {"retry-after": "7"}), 1) == 7.0
    assert model_retry.seconds_before_retry(client_error(429, {"Retry-After": "soon"}), 2) == 2.0
    assert model_retry.seconds_before_retry(client_error(429, {"Retry-After": "0"}), 2) == 2.0
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=50), usegmt=True)
    assert 40 < model_retry.seconds_before_retry(client_error(429, {"Retry-After": then}), 1) <= 50
    error = errors.APIError(429, {"error": {"code": 429, "details": [{"@type": "other"}, RETRY_INFO]}})
    assert model_retry.seconds_before_retry(error, 1) == 34.0
    dated = WithStatus(429)
    dated.headers = {"Retry-After": "3"}
    assert model_retry.seconds_before_retry(dated, 1) == 3.0


@pytest.mark.parametrize("requested", ["1e9", "1e308", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_service_holds_a_model_for_at_most_an_hour(requested):
    assert model_retry.seconds_before_retry(client_error(429, {"Retry-After": requested}), 1) == 3_600.0


@pytest.mark.parametrize("requested", ["-5", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_requested_wait_in_the_past_is_ignored(requested):
    assert model_retry.seconds_before_retry(client_error(429, {"Retry-After": requested}), 3) == 4.0


@pytest.mark.parametrize(
    "expected",
    [
        *("nan", "-NaN", "inf", "Infinity", "1e999"),
        *("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "Mon, 01 Jan 2024 00:00:00 +99999999999999"),
    ],
)
def test_a_requested_wait_that_is_no_number_is_ignored(expected):
    assert model_retry.seconds_before_retry(client_error(429, {"Retry-After": expected}), 3) == 4.0
    delay = {**RETRY_INFO, "retryDelay": f"{expected}s"}
    error = errors.APIError(429, {"error": {"code": 429, "details": [delay]}})
    assert model_retry.seconds_before_retry(error, 3) == 4.0


async def test_a_wait_is_a_little_longer_by_chance(monkeypatch):
    waits, slept = [], []

    async def tell(waits_for, waited):
        waits.append(waits_for)

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(model_retry.asyncio, "sleep", sleep)
    for _ in range(10):
        assert await RetriedCall(Retries(120.0, tell), "m").wait_after(WithStatus(503))
    assert len(set(slept)) > 1
    assert all(1.0 <= seconds <= 1.25 for seconds in slept)
