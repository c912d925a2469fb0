"""Every evalset of the examples is a file ADK can read, and scores through ADK's evaluators as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from google.adk.evaluation.eval_case import EvalCase, Invocation
from google.adk.evaluation.eval_config import get_eval_metrics_from_config, get_evaluation_criteria_or_default
from google.adk.evaluation.eval_set import EvalSet
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.evaluator import EvalStatus
from google.adk.evaluation.final_response_match_v1 import RougeEvaluator
from google.adk.evaluation.local_eval_sets_manager import load_eval_set_from_file
from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator

from tests.examples.conftest import AGENTS, NAMES, Chat, Chats

EVALUATORS = {"tool_trajectory_avg_score": TrajectoryEvaluator, "response_match_score": RougeEvaluator}
FAILS, RAISES, GOLD = "fails_on_purpose", "tool_raises_on_purpose", "gold_fails_on_purpose"
FAILED_METRICS = {FAILS: set(EVALUATORS), GOLD: {"response_match_score"}}
"""Metrics that fail on purpose, by case."""

Scores = dict[str, tuple[float | None, EvalStatus]]


def read(file: Path) -> EvalSet:
    """The evalset, by ADK's own classes; ADK reads no YAML itself, so that is turned into data first."""
    if file.suffix == ".yaml":
        return EvalSet.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    return load_eval_set_from_file(str(file), file.name.removesuffix(".test.json"))


FILES = sorted(
    file for kind in ("evalset.json", "evalset.yaml", "test.json") for file in AGENTS.glob(f"*/*.{kind}")
)
CASES = [
    pytest.param(file, case, id=f"{file.parent.name}/{file.name}:{case.eval_id}")
    for file in FILES
    for case in read(file).eval_cases
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_file_is_named_by_its_id_and_its_cases_belong_to_the_agent(file: Path) -> None:
    evalset = read(file)
    assert re.fullmatch(r"[a-zA-Z0-9_]+", evalset.eval_set_id)
    assert file.name.startswith(f"{evalset.eval_set_id}.")
    assert len({case.eval_id for case in evalset.eval_cases}) == len(evalset.eval_cases)
    assert {case.session_input.app_name for case in evalset.eval_cases if case.session_input} == {
        file.parent.name
    }


@pytest.mark.parametrize("name", NAMES)
def test_each_agent_has_an_evalset_with_several_turns(name: str) -> None:
    best = max(
        (read(file) for file in FILES if file.parent.name == name), key=lambda result: len(result.eval_cases)
    )
    assert len(best.eval_cases) >= 4
    assert any(len(case.conversation or []) > 1 for case in best.eval_cases)


def test_the_files_show_every_format() -> None:
    suffixes = {file.name.partition(".")[2] for file in FILES}
    assert suffixes == {"evalset.json", "evalset.yaml", "test.json"}


def test_intentional_failures_are_named_and_explained() -> None:
    explained = {
        case.eval_id: case.eval_id in (evalset.description or "")
        for evalset in map(read, FILES)
        for case in evalset.eval_cases
        if case.eval_id.endswith("_on_purpose")
    }
    assert explained == {FAILS: True, RAISES: True, GOLD: True}


@pytest.mark.parametrize(("file", "case"), [case for case in CASES if case.values[1].eval_id != RAISES])
async def test_case_scores_as_documented_in_its_file(chats: Chats, file: Path, case: EvalCase) -> None:
    scores = await _scores(chats, file, case)
    failed = {name for name, (_, status) in scores.items() if status == EvalStatus.FAILED}
    assert scores.keys() == EVALUATORS.keys()
    assert failed == FAILED_METRICS.get(case.eval_id, set()), scores


async def test_failing_case_has_wrong_call_and_half_right_response(chats: Chats) -> None:
    file = AGENTS / "weather" / "one_fails_on_purpose.evalset.json"
    case = next(case for case in read(file).eval_cases if case.eval_id == FAILS)
    scores = await _scores(chats, file, case)
    assert scores["tool_trajectory_avg_score"][0] == 0
    assert 0 < (scores["response_match_score"][0] or 0) < 0.8


async def test_the_raising_case_ends_before_there_is_a_response(chats: Chats) -> None:
    (case,) = read(AGENTS / "office" / "raises_on_purpose.evalset.json").eval_cases
    with pytest.raises(RuntimeError, match="does not answer"):
        await _infer(chats, case)


async def test_a_wrong_count_fails_the_counting_case(chats: Chats) -> None:
    """Attempts that shared one `user:n` would answer 2 in the second: that must not pass unnoticed."""
    file = AGENTS / "weather" / "lookups.evalset.json"
    case = next(case for case in read(file).eval_cases if case.eval_id == "counts_from_one")
    chat = await chats("weather", user="eval_user", state={"user:n": 1})
    actual = await _converse(chat, case)
    assert _evaluate(file, case, actual)["response_match_score"][1] == EvalStatus.FAILED


async def _scores(chats: Chats, file: Path, case: EvalCase) -> Scores:
    return _evaluate(file, case, await _infer(chats, case))


async def _infer(chats: Chats, case: EvalCase) -> list[Invocation]:
    assert case.session_input is not None
    session_input = case.session_input
    return await _converse(
        await chats(session_input.app_name, user=session_input.user_id, state=session_input.state), case
    )


async def _converse(chat: Chat, case: EvalCase) -> list[Invocation]:
    """Play the user's turns and turn what was stored into invocations, as ADK does for a session."""
    for invocation in case.conversation or []:
        await chat.send(*(invocation.user_content.parts or []))
    return EvaluationGenerator.convert_events_to_eval_invocations(await chat.events())


def _evaluate(file: Path, case: EvalCase, actual: list[Invocation]) -> Scores:
    config = get_evaluation_criteria_or_default(str(file.parent / "test_config.json"))
    scores: Scores = {}
    for metric in get_eval_metrics_from_config(config):
        if metric.metric_name in EVALUATORS:
            result = EVALUATORS[metric.metric_name](eval_metric=metric).evaluate_invocations(
                actual, case.conversation
            )
            scores[metric.metric_name] = (result.overall_score, result.overall_eval_status)
    return scores
