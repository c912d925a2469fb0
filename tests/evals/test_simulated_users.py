"""Simulated users and judges with any model of ADK, also offline; failures are reported."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from evals_app.execution.agent_source import FolderAgent
from evals_app.execution.run_execution import execute_run
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import folder_orders
from evals_app.runs.folder_orders import EvalsetRequest
from sessions_app.store.database import units_of_work
from tests.evals.builders import case, evalset, turn, write
from tests.evals.run_evals_command import run_evals

EXAMPLES = Path(__file__).parents[2] / "examples"

Status = EvalAttempt.Status

SCENARIO = {
    "eval_id": "talks",
    "conversation_scenario": {"starting_prompt": "Hello", "conversation_plan": "- Bye"},
}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("place", "judged_by"), [("judged", {"offline-judge"}), ("scenarios", {"offline-judge", "offline-user"})]
)
async def test_examples_are_judged_and_played_without_a_network(store, place, judged_by):
    file = next((EXAMPLES / place).glob("*.evalset.json"))

    def order():
        agents, app_name = folder_orders.agent_at(EXAMPLES / "agents" / "weather")
        return (
            agents,
            app_name,
            folder_orders.order_from_folder(agents, app_name, EvalsetRequest(str(file))).id,
        )

    agents, app_name, run_id = await units_of_work.write(order)
    await execute_run(run_id, FolderAgent(agents, app_name), asyncio.Event())
    run = await units_of_work.read(EvalRun.objects.get, pk=run_id)
    assert run.passed == run.total, await units_of_work.read(
        lambda: list(run.attempts.values_list("case_id", "error"))
    )
    for attempt in await units_of_work.read(lambda: list(run.attempts.all())):
        used = json.loads(attempt.judge)
        assert used.keys() == judged_by
        assert all(usage["calls"] and usage["prompt"] and usage["output"] for usage in used.values())


def test_offline_judge_reads_whole_conversations(store, tmp_path):
    says = {"looks": "It calls “get_weather”.", "sings": "It says “la la la”."}
    rubrics = [{"rubric_id": name, "rubric_content": {"text_property": text}} for name, text in says.items()]
    judge = {"judge_model": "offline-judge", "num_samples": 1}
    expected = {"threshold": 0.5, "judge_model_options": judge, "rubrics": rubrics}
    metric = "rubric_based_multi_turn_trajectory_quality_v1"
    config = write(tmp_path, "config.json", {"criteria": {metric: expected}})
    code, out = run_evals(EXAMPLES / "agents" / "weather", "lookups:one_city", f"--config={config}")
    assert (code, f"{metric} 0.5 ≥ 0.5" in out) == (0, True), out


async def only(run):
    return await units_of_work.read(
        lambda: (run.attempts.get(), list(run.attempts.get().results.filter(invocation=None)))
    )


def config(user="judge-yes", judge="judge-yes", **more):
    options = {"judge_model": judge, "num_samples": 1}
    return {
        "criteria": {
            "per_turn_user_simulator_quality_v1": {"threshold": 0.5, "judge_model_options": options}
        },
        "user_simulator_config": {"model": user, "max_allowed_invocations": 2, **more},
    }


def answers(ctx, text):
    return f"You said {text}."


@pytest.mark.parametrize(
    ("user", "message"),
    [("judge-raises", "the judge is out for lunch"), ("nobody-knows", "Model nobody-knows not found")],
)
async def test_unavailable_simulated_user_is_reported_on_the_case(play, user, message):
    attempt, _ = await only(await play(evalset(SCENARIO), answers, config(user)))
    assert attempt.status == Status.ERROR
    assert "The simulated user could not be asked" in attempt.error
    assert message in attempt.error
    assert "user_simulator_config names its model" in attempt.error


async def test_a_judge_of_the_simulated_user_that_talks_nonsense_is_no_bad_user(play):
    attempt, [overall, *_] = await only(await play(evalset(SCENARIO), answers, config(judge="judge-babbles")))
    assert (attempt.status, overall.status) == (Status.INCOMPLETE, "not_evaluated")
    assert overall.reason.startswith("Turn 2 could not be judged.")
    assert "The judge said “I like turtles.”" in overall.reason


async def test_a_fixed_conversation_has_no_simulated_user_to_judge(play):
    run = await play(evalset(case("a", turn("hi", "You said hi."))), answers, config())
    _, [overall, *_] = await only(run)
    assert overall.reason.startswith("The case is a fixed conversation")


async def test_judges_and_simulated_users_are_counted_apart_from_the_agent(play):
    attempt, _ = await only(await play(evalset(SCENARIO), answers, config(judge="judge-counts")))
    assert json.loads(attempt.judge) == {
        "judge-yes": {"prompt": 0, "output": 0, "thoughts": 0, "cached": 0, "calls": 1},
        "judge-counts": {"prompt": 14, "output": 6, "thoughts": 2, "cached": 4, "calls": 2},
    }
    assert json.loads(attempt.by_model) == {}


@pytest.mark.parametrize("metric", ["final_response_match_v2", "hallucinations_v1"])
async def test_a_judge_that_raises_is_quoted(play, metric):
    options = {"judge_model": "judge-raises", "num_samples": 1}
    criteria = {"criteria": {metric: {"threshold": 0.5, "judge_model_options": options}}}
    _, [overall, *_] = await only(
        await play(evalset(case("a", turn("hi", "You said hi."))), answers, criteria)
    )
    assert "out for lunch" in overall.reason


@pytest.fixture
def imports(monkeypatch):
    """What is imported in the test is forgotten with it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in {"services", "counter", "counter.agent"} - before:
        sys.modules.pop(name, None)


@pytest.mark.soak
async def test_a_judge_may_be_registered_by_the_services_of_the_folder(store, imports, tmp_path):
    (tmp_path / "services.py").write_text(
        "from google.adk.models.registry import LLMRegistry\n"
        "from tests.evals.agents import Judge\n"
        "class Beside(Judge):\n"
        "    @classmethod\n"
        "    def supported_models(cls):\n"
        "        return ['judge-beside-.*']\n"
        "LLMRegistry.register(Beside)\n"
    )
    agent = tmp_path / "counter"
    agent.mkdir()
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(
        "from tests.evals.agents import talker\nroot_agent = talker('It is sunny.')\n"
    )
    options = {"judge_model": "judge-beside-no", "num_samples": 1}
    write(agent, "a.evalset.json", evalset(case("a", turn("in Rome", "It is sunny."))))
    config = {"criteria": {"final_response_match_v2": {"threshold": 0.5, "judge_model_options": options}}}

    def order():
        agents, app_name = folder_orders.agent_at(agent)
        return (
            agents,
            app_name,
            folder_orders.order_from_folder(agents, app_name, EvalsetRequest("a", settings=config)).id,
        )

    agents, app_name, run_id = await units_of_work.write(order)
    await execute_run(run_id, FolderAgent(agents, app_name), asyncio.Event())
    run = await units_of_work.read(EvalRun.objects.get, pk=run_id)
    assert (run.status, run.failed) == ("done", 1), run.error
