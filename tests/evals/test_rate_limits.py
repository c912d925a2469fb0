"""Requests and tokens a minute per model, and requested waits, hold for all calls of all processes."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncGenerator

import pytest
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from evals_app.execution import rate_limiter
from evals_app.execution.rate_limiter import RateLimiter
from evals_app.models import EvalAttempt, EvalRun, ModelRate
from evals_app.rates import model_rates
from evals_app.rates.model_rates import Hold, Reservation
from evals_app.rates.rate_limits import NO_LIMITS, RateLimit, RateLimits, find_rate_limits
from evals_app.rates.sliding_minute import MINUTE_S, SlidingMinute
from sessions_app.agent_processes import processes
from sessions_app.file_problems import BadFile
from sessions_app.store.database import units_of_work
from tests import forked_processes
from tests.evals.builders import case, evalset, turn
from tests.evals.refused_models import Fails, agent, client_error
from tests.runtime.web_command import ROOT
from tests.settable_clock import later

NOW = 1_800_000_000.0
SIX = RateLimit(model="m", requests_per_minute=6)
FILE = """
[[limit]]
model = "gemini-*"
requests_per_minute = 60

[[limit]]
model = "gemini-2.5-*"
tokens_per_minute = 1_000_000

[[limit]]
model = "gemini-2.5-pro"
requests_per_minute = 5
tokens_per_minute = 1_000
"""


@given(st.lists(st.floats(0, 20), max_size=60), st.integers(1, 8))
def test_no_minute_has_more_requests_than_the_limit(pauses, limit):
    now, minute, times = NOW, SlidingMinute(), []
    for pause in pauses:
        minute = SlidingMinute.read(minute.as_json(), now)
        if not minute.seconds_until_free(limit, None, now):
            minute.add(int(now), 1, 0)
            times.append(now)
        now += pause
    assert all(sum(at <= other < at + MINUTE_S for other in times) <= limit for at in times)


@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 500)), max_size=30), st.integers(1, 5))
def test_request_fits_after_the_wait_and_not_before(used, limit):
    minute = SlidingMinute()
    for second, tokens in used:
        minute.add(int(NOW) - second, 1, tokens)
    minute = SlidingMinute.read(minute.as_json(), NOW)
    seconds = minute.seconds_until_free(limit, 1000, NOW)
    after = SlidingMinute.read(minute.as_json(), NOW + seconds)
    assert after.requests < limit
    assert not after.slots or after.tokens + minute.expected_tokens <= 1000
    if seconds:
        just_before = SlidingMinute.read(minute.as_json(), NOW + seconds - 0.01)
        assert just_before.requests >= limit or just_before.tokens + minute.expected_tokens > 1000


def test_expected_tokens_are_reserved_until_the_call_has_ended():
    minute = SlidingMinute()
    minute.add(int(NOW), 1, 400)
    assert minute.expected_tokens == 400
    minute.add(int(NOW), 1, 400)
    assert minute.seconds_until_free(None, 1000, NOW) == MINUTE_S + 1
    minute.settle(int(NOW), 400, 50, NOW + 2)
    assert (minute.requests, minute.tokens) == (2, 450)
    assert minute.seconds_until_free(None, 1000, NOW + 2) == 0.0


def test_tokens_of_a_call_that_took_more_than_a_minute_count_at_its_end():
    minute = SlidingMinute()
    minute.settle(int(NOW) - 90, 400, 50, NOW)
    assert minute.tokens == 50


def test_single_call_may_use_more_tokens_than_a_minute_has():
    minute = SlidingMinute()
    minute.add(int(NOW), 1, 5000)
    seconds = minute.seconds_until_free(None, 1000, NOW)
    assert SlidingMinute.read(minute.as_json(), NOW + seconds).seconds_until_free(None, 1000, NOW) == 0.0


def test_use_in_the_future_is_forgotten_when_the_clock_was_set_back():
    minute = SlidingMinute()
    minute.add(int(NOW) + 3600, 6, 0)
    assert SlidingMinute.read(minute.as_json(), NOW).requests == 0


def test_name_takes_precedence_over_patterns(tmp_path):
    (tmp_path / "rate_limits.toml").write_text(FILE)
    limits = find_rate_limits([tmp_path])
    assert str(limits.find_limit("gemini-1.5-pro")) == "60 requests a minute"
    assert str(limits.find_limit("vertex_ai/gemini-2.5-flash")) == "1,000,000 tokens a minute"
    assert str(limits.find_limit("gemini-2.5-pro")) == "5 requests and 1,000 tokens a minute"
    assert limits.find_limit("claude") is None


def test_limits_are_in_the_first_folder_with_a_file(tmp_path, settings):
    settings.DEVUI_AGENTS_DIR, settings.DATA_DIR = "", tmp_path / "data"
    assert find_rate_limits([tmp_path]) == NO_LIMITS
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rate_limits.toml").write_text(FILE)
    assert len(find_rate_limits([tmp_path]).limits) == 3


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('model = "m"', "limit[0]: needs requests_per_minute or tokens_per_minute"),
        ("requests_per_minute = 1", "limit[0].model: is required"),
        ('model = "m"\nrequests_per_minute = 0', "must be greater than or equal to 1"),
        ('model = "m"\nrequests_per_minute = 1.5', "limit[0].requests_per_minute"),
        ('model = "m"\nrequests_per_second = 1', "limit[0].requests_per_second: is no known field"),
    ],
)
def test_invalid_entry_is_refused_with_its_place(tmp_path, entry, problem):
    (tmp_path / "rate_limits.toml").write_text(f"[[limit]]\n{entry}\n")
    with pytest.raises(BadFile) as error:
        find_rate_limits([tmp_path])
    assert problem in error.value.message
    assert "[[limit]]" in error.value.hint


def test_seventh_request_of_a_minute_waits(store):
    assert all(isinstance(model_rates.reserve("m", SIX), Reservation) for _ in range(6))
    hold = model_rates.reserve("m", SIX)
    assert isinstance(hold, Hold)
    assert 59 < hold.seconds <= 61
    assert hold.reason == "The rate limit of m is reached: 6 requests a minute"
    assert isinstance(model_rates.reserve("other", SIX), Reservation)


def test_models_that_wait_are_listed_with_reason_and_end(store):
    processes.register("w1", "counter", 1, "")
    for _ in range(6):
        model_rates.reserve("limited", SIX)
    model_rates.reserve("free", SIX)
    model_rates.note_back_off("refused", 40.0, "refused could not be asked: 429", "w1")
    limited, refused = model_rates.held_models()
    assert limited.model == "limited"
    assert limited.reason == "The rate limit of limited is reached: 6 requests a minute"
    assert (refused.model, refused.reason) == ("refused", "refused could not be asked: 429")
    assert ModelRate.objects.get(pk="refused").blocked_by_id == "w1"
    assert 39 < refused.until - time.time() <= 40


def test_longer_back_off_stays(store):
    model_rates.note_back_off("m", 40.0, "first", None)
    model_rates.note_back_off("m", 5.0, "second", None)
    assert model_rates.find_back_off("m").reason == "first"
    model_rates.note_back_off("m", 60.0, "third", None)
    assert model_rates.find_back_off("m").reason == "third"


def test_back_off_ends_when_the_clock_is_set_back(store):
    model_rates.note_back_off("m", 40.0, "first", None)
    ModelRate.objects.update(blocked_at=time.time() + 3600, blocked_until=time.time() + 3640)
    assert model_rates.find_back_off("m") is None


class Counted(BaseLlm):
    """A model that notes when it is asked, and uses 100 tokens for each answer."""

    asked: list[float]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.asked.append(time.monotonic())
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=80, candidates_token_count=20, total_token_count=100
        )
        content = types.Content(role="model", parts=[types.Part(text="fine")])
        yield LlmResponse(content=content, usage_metadata=usage)


THREE = evalset(*[case(f"c{number}", turn("go", "fine")) for number in range(3)])


def write_limit(folder, **limit):
    lines = [f"{name} = {value}" for name, value in limit.items()]
    (folder.path / "rate_limits.toml").write_text("\n".join(['[[limit]]\nmodel = "counted"', *lines]))


@pytest.fixture
def quick_minute(monkeypatch):
    """A minute of a second."""
    monkeypatch.setattr("evals_app.rates.sliding_minute.MINUTE_S", 1)


async def rate_of(model="counted"):
    return await units_of_work.read(ModelRate.objects.get, pk=model)


async def test_calls_of_an_agent_wait_for_the_limit_of_their_model(play, folder, quick_minute):
    write_limit(folder, requests_per_minute=2)
    model, waits = Counted(model="counted", asked=[]), []

    def progress(attempt, outcome):
        waits.append(attempt.waits_for)

    run = await play(THREE, agent(model), progress=progress)
    assert run.passed == 3
    assert model.asked[2] - model.asked[0] > 1.0
    assert any(
        wait.startswith("The rate limit of counted is reached: 2 requests a minute.") for wait in waits
    )
    waited = await units_of_work.read(lambda: [a.waited_seconds for a in EvalAttempt.objects.all()])
    assert max(waited) > 0.5


async def test_tokens_of_calls_are_counted(play, folder):
    write_limit(folder, tokens_per_minute=1000)
    assert (await play(THREE, agent(Counted(model="counted", asked=[])))).passed == 3
    minute = SlidingMinute.read((await rate_of()).minute, time.time())
    assert (minute.requests, minute.tokens) == (3, 300)


async def test_failed_call_counts_as_request_without_tokens(play, folder):
    write_limit(folder, requests_per_minute=10, tokens_per_minute=1000)
    model = Fails(model="counted", left=[client_error(429)], says="fine")
    await play(evalset(case("a", turn("go", "fine"))), agent(model))
    minute = SlidingMinute.read((await rate_of()).minute, time.time())
    assert (minute.requests, minute.tokens) == (2, 0)


async def test_wait_for_a_limit_does_not_count_as_time_of_retries(play, folder, quick_minute):
    from evals_app.runs.limits import EvalRunLimits

    write_limit(folder, requests_per_minute=1)
    model = Fails(model="counted", left=[client_error(429), client_error(429)], says="fine")
    one = evalset(case("a", turn("go", "fine")))
    run = await play(one, agent(model), limits=EvalRunLimits(retry_seconds=1))
    assert (run.passed, model.request_count) == (1, 3)


async def test_recorded_answers_count_in_no_limit(play, folder):
    write_limit(folder, requests_per_minute=3)
    model = Counted(model="counted", asked=[])
    recorded = await play(THREE, agent(model))
    again = await play(THREE, agent(model), policy={"models": "recorded", "source": {"run": recorded.pk}})
    assert (again.passed, len(model.asked)) == (3, 3)
    assert SlidingMinute.read((await rate_of()).minute, time.time()).requests == 3


async def test_attempt_that_waits_for_a_limit_is_cancelled_at_once(play, folder):
    write_limit(folder, requests_per_minute=1)
    cancelled = asyncio.Event()

    def progress(attempt, outcome):
        if attempt.waits_for:
            cancelled.set()

    began = time.monotonic()
    model = Counted(model="counted", asked=[])
    run = await play(THREE, agent(model), cancelled=cancelled, progress=progress, parallelism=1)
    assert (run.status, run.passed, run.cancelled) == (EvalRun.Status.CANCELLED, 1, 2)
    assert time.monotonic() - began < 20


async def test_invalid_file_of_limits_fails_the_run_with_its_place(play, folder):
    write_limit(folder, requests_per_minute='"many"')
    run = await play(THREE, agent(Counted(model="counted", asked=[])))
    assert run.status == EvalRun.Status.FAILED
    assert run.error.startswith("rate_limits.toml: limit[0].requests_per_minute: must be a valid integer")


async def test_requested_wait_holds_for_the_other_attempts(play, monkeypatch):
    """The first attempt is refused; the second asks when that wait is over, and never meets a refusal."""
    monkeypatch.setattr(random, "random", lambda: 0.0)
    call_times = []

    class Refuses(Counted):
        async def generate_content_async(self, llm_request, stream=False):
            call_times.append(time.monotonic())
            if len(call_times) == 1:
                raise client_error(429, {"Retry-After": "1"})
            await asyncio.sleep(0.01)
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    run = await play(THREE, agent(Refuses(model="refuses", asked=[])), parallelism=2)
    assert run.passed == 3
    early = [at - call_times[0] for at in call_times[1:] if at - call_times[0] < 0.9]
    assert len(early) <= 1, "only a call that was under way with the first one"


async def test_wait_longer_than_the_time_for_retries_is_not_awaited(store):
    from evals_app.execution.model_retry import RetriedCall, Retries

    await units_of_work.write(model_rates.note_back_off, "m", 300.0, "m could not be asked: 429", None)

    async def tell(why, waited):
        raise AssertionError(why)

    limiter = RateLimiter(RateLimits((RateLimit(model="m", requests_per_minute=9),)))
    await RetriedCall(Retries(120.0, tell, limiter), "m").await_admission()


async def test_call_without_limit_and_back_off_costs_no_query(monkeypatch):
    monkeypatch.setattr(rate_limiter, "is_file_store", lambda: True)
    monkeypatch.setattr(rate_limiter, "retry", None)
    assert await RateLimiter().reserve("nobody-was-refused") is None


async def test_own_back_off_is_looked_up_until_it_ends(store):
    limiter = RateLimiter()
    await limiter.note_back_off("m", 30.0, "m could not be asked: 429")
    assert isinstance(await limiter.reserve("m"), Hold)
    with later(31):
        assert rate_limiter._back_off_ends["m"] < time.monotonic()


def test_processes_share_the_limit_of_one_store(tmp_path):
    store = f"sqlite:///{tmp_path / 'devui.sqlite3'}"
    command = [sys.executable, "-m", "tests.evals.concurrent_reservations", store, "4", "10", "25"]
    done = forked_processes.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert sum(map(int, done.stdout.split())) == 25
