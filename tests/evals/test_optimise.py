"""Optimisations of an instruction: the command, its refusals, cancellation and resumption, limits, and the verdict."""

from __future__ import annotations

import pytest
from django.core.management import CommandError
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.sequential_agent import SequentialAgent

from evals_app.execution import optimisers
from evals_app.execution.local_optimisation import LocalEngine
from evals_app.execution.optimisers import inspect_agent
from evals_app.models import EvalAttempt, EvalRun, EvalSet, Optimisation, OptimisationStep
from evals_app.optimisation import steps
from evals_app.optimisation.settings import GEPA, SIMPLE, OptimiserSettings, divide_cases
from evals_app.runs.progress import newest_runs
from evals_app.variants.variant_files import read_variant
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from tests.evals.optimize_command import optimize
from tests.evals.run_evals_command import EXAMPLE_AGENTS

THERMO = EXAMPLE_AGENTS.parent / "optimise" / "thermo"
WRITER = "--model=offline-prompt-writer"
PARTS = ("--training=rome_warm,cairo_wind", "--validation=paris_warm,oslo_wind")
SMALL = (*PARTS, "--proposals=2")
SETTINGS = OptimiserSettings(SIMPLE, "offline-prompt-writer", ("rome_warm",), ("paris_warm",))


def refusal(*arguments):
    """Return the message with which the command refuses these arguments."""
    with pytest.raises(CommandError) as error:
        optimize(*arguments)
    assert error.value.returncode == 2
    return str(error.value)


class InterruptedEngine(LocalEngine):
    """An engine that cancels its optimisation after some requests of the optimiser, or fails then."""

    requests = 0
    last_request = 4
    fault: Exception | None = None

    async def find_next_step(self, optimisation_id):
        step = await super().find_next_step(optimisation_id)
        self.requests += 1
        if self.requests == self.last_request:
            if self.fault:
                raise self.fault
            await units_of_work.write(steps.request_cancel, optimisation_id)
        return step


def test_optimised_instruction_is_better_on_validation_cases(store, tmp_path):
    code, out = optimize(THERMO, "units", WRITER, *SMALL, f"--output={tmp_path / 'best.yaml'}")
    assert code == 0
    assert "at most 28 attempts and 2 calls of the optimiser's model" in out
    assert "Chance does not explain the gain." in out
    lines = [line.split() for line in out.splitlines()]
    assert ["candidate", "1", "original", "50", "%", "–"] in lines
    assert ["candidate", "2", "candidate", "1", "100", "%", "100", "%", "best"] in lines
    variant = read_variant(tmp_path / "best.yaml")
    assert "temperature: Fahrenheit" in variant.patch["thermo"]["instruction"]
    assert EvalAttempt.objects.count() == 28
    compared = Optimisation.objects.get().comparison
    assert (compared.total, compared.passed) == (10, 0)
    assert newest_runs(EvalSet.objects.all())[compared.evalset_id].pk == compared.pk


def test_cancelled_optimisation_goes_on_where_it_stopped(store, monkeypatch):
    monkeypatch.setattr("evals_app.execution.local_optimisation.LocalEngine", InterruptedEngine)
    code, out = optimize(THERMO, "units", WRITER, *SMALL)
    optimisation = Optimisation.objects.get()
    assert (code, optimisation.status) == (2, Optimisation.Status.CANCELLED)
    assert f"To continue: --resume {optimisation.pk}" in out
    kept = list(OptimisationStep.objects.order_by("position").values_list("pk", "run", "answer"))
    assert kept
    monkeypatch.undo()
    code, out = optimize(THERMO, "--resume", optimisation.pk)
    assert code == 0
    assert "Chance does not explain the gain." in out
    steps_now = OptimisationStep.objects.order_by("position").values_list("pk", "run", "answer")
    assert list(steps_now)[: len(kept)] == kept
    assert OptimisationStep.objects.filter(kind="answer").count() == 2
    assert EvalAttempt.objects.count() == 28
    optimisation.refresh_from_db()
    assert (optimisation.resumed, optimisation.status) == (1, Optimisation.Status.DONE)
    assert "is done" in refusal(THERMO, "--resume", optimisation.pk)


def test_failure_of_the_model_keeps_what_was_found(store, monkeypatch):
    monkeypatch.setattr(InterruptedEngine, "fault", BadInput("The optimiser's model failed."))
    monkeypatch.setattr("evals_app.execution.local_optimisation.LocalEngine", InterruptedEngine)
    code, out = optimize(THERMO, "units", WRITER, *SMALL)
    assert code == 2
    assert "could not run: The optimiser's model failed." in out
    monkeypatch.undo()
    [optimisation_id] = Optimisation.objects.values_list("pk", flat=True)
    assert optimize(THERMO, "--resume", optimisation_id)[0] == 0


def test_optimisation_stops_at_its_limit_of_tokens(store):
    code, out = optimize(THERMO, "units", WRITER, *SMALL, "--limit=tokens=200")
    assert code == 2
    assert "stopped at a limit: The limit of" in out
    assert "tokens was reached" in out
    [optimisation_id] = Optimisation.objects.values_list("pk", flat=True)
    assert optimize(THERMO, "--resume", optimisation_id)[0] == 2
    assert "--model cannot be given" in refusal(THERMO, "--resume", optimisation_id, WRITER)
    assert optimize(THERMO, "--resume", optimisation_id, "--limit=tokens=100000")[0] == 0
    assert not EvalRun.objects.filter(status__in=EvalRun.ACTIVE).exists()


def test_no_better_candidate_is_said_plainly(store):
    parts = ("--training=thanks", "--validation=paris_warm", "--proposals=1")
    code, out = optimize(THERMO, "units", WRITER, *parts)
    assert code == 1
    assert "No candidate was better than the original in the search, so there is nothing to compare." in out


def test_gain_that_may_be_chance_is_called_unproven(store):
    code, out = optimize(THERMO, "units", WRITER, *SMALL, "--repetitions=1")
    assert code == 1
    assert "No proven gain:" in out
    assert "The difference is not more than chance." in out


def test_plan_runs_nothing(store):
    code, out = optimize(THERMO, "units", WRITER, *SMALL, "--plan")
    assert code == 0
    assert "training: rome_warm, cairo_wind" in out
    assert "at most 28 attempts" in out
    assert not Optimisation.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("units",), "The optimiser has no model"),
        (("units", "--model=no-such-model"), "There is no class for the optimiser's model 'no-such-model'"),
        (("units", "--model=gemini-2.5-flash"), "The optimiser's model 'gemini-2.5-flash' has no key."),
        (("units", WRITER, "--training=thanks", "--validation=thanks"), "is for training and for validation"),
        (("units", WRITER, "--training=nobody"), "has no case 'nobody'"),
        (("units", WRITER, "--validation-tags=nobody"), "No case has the tag 'nobody'"),
        (("units", WRITER, "--proposals=0"), "Proposals must be 1 to 100, not 0."),
        (("units", WRITER, "--limit=seconds=3"), "An optimisation has no limit of seconds."),
        ((), "Name an evalset, or an optimisation to resume."),
        (("--resume", "0" * 32), "There is no optimisation"),
    ],
)
def test_refused_order_names_object_and_way_out(store, monkeypatch, arguments, message):
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert message in refusal(THERMO, *arguments)
    assert not Optimisation.objects.exists()


def test_gepa_that_is_not_installed_is_refused_with_the_way_to_install_it(store, monkeypatch):
    monkeypatch.setattr(optimisers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match="needs the package gepa") as error:
        inspect_agent(
            LlmAgent(name="thermo", instruction="Hello."),
            OptimiserSettings(GEPA, "offline-prompt-writer", ("a",), ("b",)),
            "",
        )
    assert "pip install 'devui[optimize]'" in error.value.hint


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (
            SequentialAgent(name="steps"),
            "'steps' is a SequentialAgent, which has no instruction to optimise.",
        ),
        (LlmAgent(name="dynamic", instruction=lambda context: "Hello."), "is a function"),
        (LlmAgent(name="long", instruction="x" * 100_001), "has more than 100,000 characters"),
    ],
)
def test_agent_without_a_fixed_instruction_is_refused(agent, message):
    with pytest.raises(BadInput, match=message):
        inspect_agent(agent, SETTINGS, "")


def test_one_case_cannot_be_divided():
    with pytest.raises(BadInput, match="1 case cannot be divided into training and validation"):
        divide_cases(["only"])
    with pytest.raises(BadInput, match="Two cases have the id 'same'"):
        divide_cases(["same", "same"])


def test_cases_are_divided_by_the_seed():
    ids = [f"case-{number}" for number in range(20)]
    training, validation = divide_cases(ids, seed=3)
    assert (training, validation) == divide_cases(ids, seed=3) != divide_cases(ids, seed=4)
    assert sorted((*training, *validation)) == sorted(ids)
    assert divide_cases(ids, validation=["case-7"]) == (tuple(ids[:7] + ids[8:]), ("case-7",))


def test_bounds_of_gepa_grow_with_its_proposals():
    few = OptimiserSettings(GEPA, "m", ("a", "b"), ("c",), proposals=1)
    more = OptimiserSettings(GEPA, "m", ("a", "b"), ("c",), proposals=3)
    assert few.max_metric_calls == 6
    assert few.max_attempts < more.max_attempts
    assert few.max_model_calls < more.max_model_calls
