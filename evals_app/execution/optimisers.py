"""ADK's optimisers, run with stored results: these answer the requests; the first one without a result is returned.

An optimiser asks its `Sampler` for scores and its model for instructions. Both are replaced here. A request that has
no result yet ends the optimiser; when its result is stored, it runs again and gets one step further. So an
optimisation can be stopped anywhere, and what it has found is never lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import json
import logging
import os
import random
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from google.adk.agents.llm_agent import Agent as RootAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.adk.optimization.data_types import OptimizerResult, UnstructuredSamplingResult
from google.adk.optimization.sampler import Sampler
from google.genai import types

from evals_app.execution._adk import Agent
from evals_app.execution.model_classes import require_model_class
from evals_app.metrics.model_keys import find_missing_key
from evals_app.models import Optimisation, OptimisationStep
from evals_app.optimisation import steps
from evals_app.optimisation.settings import GEPA, OptimiserSettings
from evals_app.optimisation.steps import MAX_TEXT, NextStep, OptimisedAgent
from sessions_app.adk.model_calls import token_usage
from sessions_app.store.database import retry
from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import truncate

Kind = OptimisationStep.Kind

MAX_SHOWN = 200
"""Characters of a name or an error that a message shows."""

STORED_ANSWERS_MODEL = "devui-optimiser-model"
"""Name under which the optimisers find the model that answers from the stored steps."""


MAX_ANSWER_S = 600.0
"""Most seconds of an answer of the optimiser's model."""

OPTIMISERS_LOG = logging.getLogger("google_adk.google.adk.optimization")
"""Log of ADK's optimisers, with texts of candidates at the level INFO."""


class UnansweredRequest(BaseException):
    """A request of an optimiser that has no stored result. No optimiser catches it: it is no `Exception`."""


class UnscoredCandidate(UnansweredRequest):
    """The optimiser needs scores of a candidate."""

    def __init__(self, step: NextStep) -> None:
        super().__init__("The optimiser needs the scores of a candidate.")
        self.step = step


class UnansweredPrompt(UnansweredRequest):
    """The optimiser needs an answer of its model."""

    def __init__(self, request: LlmRequest) -> None:
        super().__init__("The optimiser needs an answer of its model.")
        self.request = request


class StoredResults:
    """The stored results of an optimisation, in the order in which its optimiser requested them."""

    def __init__(self, finished_steps: Sequence[OptimisationStep]) -> None:
        self._steps = finished_steps
        self._position = 0

    @property
    def count(self) -> int:
        """Number of results."""
        return len(self._steps)

    def take_next(self, kind: Kind, instruction: str = "") -> OptimisationStep | None:
        """Return the next result; None if there is none yet.

        Raises:
            BadInput: the optimiser requested something else before it was stopped.
        """
        if self._position >= len(self._steps):
            return None
        step = self._steps[self._position]
        self._position += 1
        if (step.kind, step.instruction) != (kind, instruction):
            raise BadInput(
                f"The optimiser does not repeat step {step.position}: ADK or gepa has changed since it was stopped.",
                hint="Start a new optimisation.",
            )
        return step


class StoredSampler(Sampler[UnstructuredSamplingResult]):
    """Scores candidates by the stored results."""

    def __init__(self, settings: OptimiserSettings, results: StoredResults) -> None:
        self._cases = {self.TRAIN_SET: settings.training, self.VALIDATION_SET: settings.validation}
        self._results = results

    def get_train_example_ids(self) -> list[str]:
        """Return the ids of the training cases."""
        return list(self._cases[self.TRAIN_SET])

    def get_validation_example_ids(self) -> list[str]:
        """Return the ids of the validation cases."""
        return list(self._cases[self.VALIDATION_SET])

    async def sample_and_score(
        self,
        candidate: RootAgent,
        example_set: Any = Sampler.VALIDATION_SET,
        batch: list[str] | None = None,
        capture_full_eval_data: bool = False,
    ) -> UnstructuredSamplingResult:
        """Return the stored scores of a candidate on a batch of cases.

        Raises:
            UnscoredCandidate: it has none.
        """
        instruction = str(candidate.instruction)
        step = self._results.take_next(Kind.EVALUATION, instruction)
        if step is None:
            case_ids = list(self._cases[example_set] if batch is None else batch)
            raise UnscoredCandidate(
                NextStep(
                    self._results.count,
                    NextStep.EVALUATION,
                    instruction,
                    example_set,
                    case_ids,
                    capture_full_eval_data,
                )
            )
        data = json.loads(step.evaluation_data) if step.evaluation_data else None
        return UnstructuredSamplingResult(scores=json.loads(step.scores), data=data)


_one_at_a_time = asyncio.Lock()
_current_results: ContextVar[StoredResults] = ContextVar("optimiser_results")


class StoredAnswersLlm(BaseLlm):
    """The model of an optimiser, which answers by the stored results."""

    @classmethod
    def supported_models(cls) -> list[str]:
        """Return the pattern of its name."""
        return [STORED_ANSWERS_MODEL]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the stored answer.

        Raises:
            UnansweredPrompt: there is none.
        """
        step = _current_results.get().take_next(Kind.ANSWER)
        if step is None:
            raise UnansweredPrompt(llm_request)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=step.answer)]))


def inspect_agent(agent: Agent, settings: OptimiserSettings, code_version: str) -> OptimisedAgent:
    """Return the agent that is optimised, after it was checked with the optimiser and its model.

    Raises:
        BadInput: its instruction cannot be optimised, or the optimiser or its model cannot be used here.
    """
    if not isinstance(agent, LlmAgent):
        raise BadInput(
            f"{agent.name!r} is a {type(agent).__name__}, which has no instruction to optimise.",
            hint="An optimiser changes the instruction of a root agent that is an LlmAgent.",
        )
    if not isinstance(agent.instruction, str):
        raise BadInput(
            f"The instruction of {agent.name!r} is a function, which an optimiser cannot rewrite.",
            hint="Give the agent a text as its instruction.",
        )
    if len(agent.instruction) > MAX_TEXT:
        raise BadInput(
            f"The instruction of {agent.name!r} has more than {MAX_TEXT:,} characters.", hint="Shorten it."
        )
    _require_optimiser(settings)
    _require_model(settings.model)
    return OptimisedAgent(agent.name, agent.instruction, code_version)


def _require_optimiser(settings: OptimiserSettings) -> None:
    if settings.optimiser == GEPA and importlib.util.find_spec("gepa") is None:
        raise BadInput(
            "The optimiser gepa needs the package gepa, which is not installed.",
            hint="pip install 'devui[optimize]', or choose the optimiser simple.",
        )


def _require_model(name: str) -> None:
    require_model_class(name, "There is no class for the optimiser's model")
    if variable := find_missing_key(name, set(os.environ)):
        raise BadInput(
            f"The optimiser's model {name!r} has no key.", hint=f"Set {variable} where the agent runs."
        )


async def find_next_step(optimisation_id: str) -> NextStep:
    """Run the optimiser of an optimisation with its stored results; return what it needs next.

    If that is an answer of its model, the model is asked, and the answer is stored.

    Raises:
        BadInput: the optimiser or its model fails.
    """
    optimisation = await retry.read(steps.find_optimisation, optimisation_id)
    finished_steps = await retry.read(steps.list_steps, optimisation)
    settings = OptimiserSettings.from_json(optimisation.settings)
    position = len(finished_steps)
    try:
        return NextStep(position, NextStep.BEST, await _run_optimiser(optimisation, settings, finished_steps))
    except UnscoredCandidate as candidate:
        return candidate.step
    except UnansweredPrompt as prompt:
        model_request = prompt.request
    if sum(step.kind == Kind.ANSWER for step in finished_steps) >= settings.max_model_calls:
        return NextStep(position, NextStep.OVER_LIMIT)
    await _answer_request(optimisation_id, position, settings.model, model_request)
    return NextStep(position, NextStep.ANSWERED)


async def _run_optimiser(
    optimisation: Optimisation, settings: OptimiserSettings, finished_steps: Sequence[OptimisationStep]
) -> str:
    """Run an optimiser to its end; return the best instruction. One runs at a time: its random numbers are global.

    Raises:
        UnansweredRequest: it needs another result.
        BadInput: it fails.
    """
    results = StoredResults(finished_steps)
    token = _current_results.set(results)
    try:
        async with _one_at_a_time:
            with _seed_quietly(settings.seed):
                result = await _make_optimiser(settings).optimize(
                    LlmAgent(name=optimisation.agent, instruction=optimisation.instruction),
                    StoredSampler(settings, results),
                )
    except BadInput:
        raise
    except Exception as error:
        reason = truncate(f"{type(error).__name__}: {error}", MAX_SHOWN)
        raise BadInput(f"The optimiser {settings.optimiser} failed: {reason}", hint="") from error
    finally:
        _current_results.reset(token)
    return _best_instruction(result)


@contextlib.contextmanager
def _seed_quietly(seed: int) -> Iterator[None]:
    """Seed random choices while the block runs, and keep what optimisers print and log: they repeat it at each run."""
    state, level = random.getstate(), OPTIMISERS_LOG.level
    random.seed(seed)
    OPTIMISERS_LOG.setLevel(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        OPTIMISERS_LOG.setLevel(level)
        random.setstate(state)


def _make_optimiser(settings: OptimiserSettings) -> Any:
    """Return ADK's optimiser with the model that answers by stored results."""
    LLMRegistry.register(StoredAnswersLlm)
    if settings.optimiser == GEPA:
        from google.adk.optimization import gepa_root_agent_prompt_optimizer as gepa

        return gepa.GEPARootAgentPromptOptimizer(
            gepa.GEPARootAgentPromptOptimizerConfig(
                optimizer_model=STORED_ANSWERS_MODEL,
                max_metric_calls=settings.max_metric_calls,
                reflection_minibatch_size=settings.batch,
            )
        )
    from google.adk.optimization import simple_prompt_optimizer as simple

    return simple.SimplePromptOptimizer(
        simple.SimplePromptOptimizerConfig(
            optimizer_model=STORED_ANSWERS_MODEL, num_iterations=settings.proposals, batch_size=settings.batch
        )
    )


def _best_instruction(result: OptimizerResult[Any]) -> str:
    """Return the instruction with the best score on validation cases; of equal ones the first."""
    best = max(result.optimized_agents, key=lambda candidate: candidate.overall_score or 0.0)
    return str(best.optimized_agent.instruction)


async def _answer_request(optimisation_id: str, position: int, model: str, request: LlmRequest) -> None:
    """Have the optimiser's model answer, and store the answer.

    Raises:
        BadInput: the model fails, or gives no text.
    """
    started_at = time.time()
    try:
        async with asyncio.timeout(MAX_ANSWER_S):
            responses = await _ask_model(model, request)
    except TimeoutError as error:
        raise BadInput(
            f"The optimiser's model {model!r} did not answer within {MAX_ANSWER_S:.0f} seconds.",
            hint="Resume the optimisation to ask it again.",
        ) from error
    except Exception as error:
        reason = truncate(f"{type(error).__name__}: {error}", MAX_SHOWN)
        raise BadInput(
            f"The optimiser's model {model!r} failed: {reason}",
            hint="Resume the optimisation to ask it again.",
        ) from error
    answer = "".join(map(_response_text, responses))
    if not answer.strip() or len(answer) > MAX_TEXT:
        reason = next((response.error_message for response in responses if response.error_message), "")
        raise BadInput(
            f"The optimiser's model {model!r} gave {len(answer):,} characters: an instruction has 1 to"
            f" {MAX_TEXT:,}. {reason}".rstrip(),
            hint="Resume the optimisation to ask it again, or start one with another model.",
        )
    prompt = "\n".join(
        part.text or "" for content in request.contents for part in content.parts or [] if part.text
    )
    await retry.write(
        steps.add_answer, optimisation_id, position, prompt, answer, token_usage(responses), started_at
    )


async def _ask_model(model: str, request: LlmRequest) -> list[LlmResponse]:
    llm = LLMRegistry.new_llm(model)
    own_request = request.model_copy(update={"model": model})
    return [response async for response in llm.generate_content_async(own_request)]


def _response_text(response: LlmResponse) -> str:
    parts = response.content.parts if response.content else None
    return "".join(part.text for part in parts or [] if part.text and not part.thought)
