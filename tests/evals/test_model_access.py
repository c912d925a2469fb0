"""Models, judges and simulated users without access, such as by a wrong key: no outcome, and no retries over time."""

from __future__ import annotations

import json

import pytest
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_response import LlmResponse
from google.genai import errors, types

from evals_app.analysis import case_matrix, run_summary
from evals_app.execution.model_errors import is_access_refused, is_temporary
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import rerun
from evals_app.runs.attempt_status import HAS_OUTCOME, NO_MODEL_ACCESS
from sessions_app.store.database import units_of_work
from tests.evals.builders import case, evalset, turn
from tests.evals.refused_models import Fails, agent, client_error, gemini, judge_config, refusal, talks

Status = EvalAttempt.Status
ONE = evalset(case("a", turn("go", "fine")))
WRONG_KEY = {
    "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
}


async def read_attempt(run):
    return await units_of_work.read(run.attempts.get)


def wrong_key():
    return client_error(401, {})


@pytest.mark.parametrize(
    "answer",
    [
        refusal(401, "Bad credentials."),
        refusal(403, "The caller does not have permission."),
        refusal(400, "API key not valid.", **WRONG_KEY),
    ],
    ids=["401", "403", "400 of Google"],
)
async def test_model_without_access_is_asked_once_and_there_is_no_outcome(play, service, answer):
    service.answers = [answer]
    run = await play(ONE, agent(gemini(service)))
    attempt = await read_attempt(run)
    assert (attempt.status, attempt.error_type, service.request_count) == ("error", NO_MODEL_ACCESS, 1)
    first, second = attempt.error.splitlines()
    assert first == f"No access to gemini-2.5-flash: {answer[0]}: {answer[1]['error']['message']}"
    assert second.startswith("Set the key of the model, or grant the permission")
    assert "Builds of forks have no secrets." in second
    assert (await units_of_work.read(case_matrix.tally, run)).rate.total == 0


async def test_model_without_any_key_is_no_access(play, monkeypatch):
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    attempt = await read_attempt(await play(ONE, agent(Gemini(model="gemini-2.5-flash"))))
    assert attempt.error_type == NO_MODEL_ACCESS
    assert attempt.error.startswith("No access to gemini-2.5-flash: ValueError: ")


async def test_access_that_is_lost_between_retries_ends_them(play):
    model = Fails(model="fails", left=[client_error(429), wrong_key()])
    attempt = await read_attempt(await play(ONE, agent(model)))
    assert (attempt.error_type, model.request_count) == (NO_MODEL_ACCESS, 2)


@pytest.mark.parametrize(("answer", "status"), [("fine", Status.PASSED), ("Sorry.", Status.ERROR)])
async def test_agent_that_passes_without_its_model_has_passed(play, answer, status):
    def fall_back(callback_context, llm_request, error):
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=answer)]))

    model = Fails(model="fails", left=[wrong_key()])
    attempt = await read_attempt(await play(ONE, agent(model, on_model_error_callback=fall_back)))
    assert attempt.status == status


async def test_judge_without_access_is_no_outcome_unless_another_metric_failed(play, judge):
    judge["errors"] = [wrong_key()]
    attempt = await read_attempt(await play(ONE, talks, judge_config()))
    assert (attempt.status, attempt.error_type, judge["calls"]) == ("error", NO_MODEL_ACCESS, 1)
    assert attempt.error.startswith("The judge: No access to failing-judge: 401")
    judge["errors"] = [wrong_key()]
    run = await play(evalset(case("a", turn("go", "other"))), talks, judge_config(response_match_score=1.0))
    assert (run.failed, run.errors) == (1, 0)


async def test_simulated_user_without_access_is_no_outcome(play, judge):
    scenario = {"starting_prompt": "hi", "conversation_plan": "Say hi twice."}
    config = {
        "criteria": {"final_response_match_v2": 0.5},
        "user_simulator_config": {"model": "failing-judge", "max_allowed_invocations": 2},
    }
    judge["errors"] = [client_error(403, {})]
    run = await play(evalset({"eval_id": "s", "conversation_scenario": scenario}), talks, config)
    attempt = await read_attempt(run)
    assert attempt.error_type == NO_MODEL_ACCESS
    assert attempt.error.startswith("The simulated user: No access to failing-judge: 403")


async def test_page_says_why_there_is_no_outcome_and_a_rerun_restarts_in_place(play, web):
    run = await play(ONE, agent(Fails(model="fails", left=[wrong_key(), wrong_key()])), num_runs=2)
    assert not await units_of_work.read(run.attempts.filter(HAS_OUTCOME).exists)
    [loss] = (await units_of_work.read(run_summary.summary, run)).losses
    assert (loss.attempts, loss.error_type) == (2, NO_MODEL_ACCESS)
    page = (await web.get(f"/evals/runs/{run.pk}/")).content.decode()
    assert "2 attempts have no outcome: no access to a model, judge or simulated user." in page
    assert "Builds of forks have no secrets." in page
    await units_of_work.write(lambda: EvalRun.objects.update(code_version=""))
    assert [again.pk for again in await units_of_work.write(rerun.retry, run)] == [run.pk]


class WithStatus(Exception):
    """An error of LiteLLM or openai."""

    def __init__(self, status_code: int, text: str = "no") -> None:
        super().__init__(text)
        self.status_code = status_code


class DefaultCredentialsError(Exception):
    """As google-auth's."""


class RefreshError(Exception):
    """As google-auth's."""

    retryable = True


def wrapped(cause):
    error = RuntimeError("The model failed.")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        WithStatus(401),
        WithStatus(403),
        wrapped(wrapped(WithStatus(401))),
        WithStatus(500, "OpenAIException - The api_key client option must be set either by passing"),
        ValueError("Missing key inputs argument! To use the Google AI API, provide (`api_key`) arguments."),
        TypeError(
            '"Could not resolve authentication method. Expected either api_key or auth_token to be set.'
        ),
        DefaultCredentialsError("Your default credentials were not found."),
    ],
)
def test_refused_access_is_recognized(error):
    assert is_access_refused(error)


@pytest.mark.parametrize(
    "error",
    [
        WithStatus(400),
        WithStatus(404),
        WithStatus(429),
        ValueError("no such key: 401"),
        RefreshError("timeout"),
    ],
)
def test_other_errors_are_no_refused_access(error):
    assert not is_access_refused(error)


def test_refused_access_is_not_temporary():
    assert not is_temporary(wrapped(WithStatus(403)))
    assert not is_temporary(errors.ClientError(401, json.loads('{"error": {"message": "no"}}')))
