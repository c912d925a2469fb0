"""The only module of this package that uses names of ADK that start with an underscore. A test imports each."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps.app import App
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.evaluation import _efficiency_evaluators as efficiency
from google.adk.evaluation import _retry_options_utils as retrying
from google.adk.evaluation import hallucinations_v1, rubric_based_evaluator
from google.adk.evaluation.custom_metric_evaluator import _CustomMetricEvaluator
from google.adk.evaluation.eval_case import Invocation, SessionInput
from google.adk.evaluation.eval_metrics import EvalMetric
from google.adk.evaluation.eval_rubrics import RubricScore
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.evaluator import EvaluationResult, Evaluator, PerInvocationResult
from google.adk.evaluation.final_response_match_v2 import FinalResponseMatchV2Evaluator
from google.adk.evaluation.llm_as_judge import AutoRaterScore
from google.adk.evaluation.llm_as_judge_utils import get_text_from_content
from google.adk.evaluation.rubric_based_evaluator import (
    DefaultAutoRaterResponseParser,
    MeanInvocationResultsSummarizer,
    RubricBasedEvaluator,
    RubricResponse,
)
from google.adk.evaluation.simulation.user_simulator import UserSimulator
from google.adk.flows.llm_flows.core._model_call import resolve_llm
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.utils._callback_pipeline import _invoke_callback
from google.adk.workflow import BaseNode
from google.genai import types

from evals_app.execution.judge_verdicts import excerpt, is_clear, pair_sentences, quote_judge
from sessions_app.agents.folder import explain_unloadable_name

Agent = BaseAgent | BaseNode

EFFICIENCY: dict[str, type[Evaluator]] = {
    "tool_call_count_v1": efficiency._ToolCallCountV1Evaluator,
    "inference_call_count_v1": efficiency._InferenceCallCountV1Evaluator,
    "token_usage_v1": efficiency._TokenUsageV1Evaluator,
    "invocation_duration_v1": efficiency._InvocationDurationV1Evaluator,
}
"""Evaluators of the metrics that are reported with every run."""


def custom_evaluator(metric: EvalMetric) -> Evaluator:
    """Return the evaluator of a metric whose function a configuration names.

    Raises:
        ImportError: the function cannot be imported.
    """
    return _CustomMetricEvaluator(eval_metric=metric, custom_function_path=metric.custom_function_path or "")


def make_evaluator(cls: type[Evaluator], metric: EvalMetric) -> Evaluator:
    """Return an evaluator of ADK's class for a metric. Its results also list the missing verdicts of the judge."""
    for base, strict in (
        (RubricBasedEvaluator, _RubricEvaluator),
        (hallucinations_v1.HallucinationsV1Evaluator, SentenceEvaluator),
        (FinalResponseMatchV2Evaluator, _AnswerEvaluator),
    ):
        if issubclass(cls, base):
            cls = type(cls.__name__, (strict, cls), {})
    factory: Callable[..., Evaluator] = cls
    return factory(eval_metric=metric)


class _VerdictParser(DefaultAutoRaterResponseParser):
    """Gives an unclear verdict no score."""

    def parse(self, auto_rater_response: str) -> list[RubricResponse]:
        responses = super().parse(auto_rater_response)
        verdicts = re.findall(rubric_based_evaluator._VERDICT_PATTERN, auto_rater_response)
        for response, verdict in zip(responses, verdicts, strict=False):
            if not is_clear(verdict, response.score):
                response.score, response.rationale = None, quote_judge(verdict)
        return responses


_judged_turn: ContextVar[Invocation] = ContextVar("judged_turn")


class _RubricEvaluator(RubricBasedEvaluator):
    """Reads a reply by the rubrics of its turn, and lists rubrics without a verdict with what the judge said.

    ADK reads all replies by the rubrics of the last turn, and leaves rubrics without a verdict out of the score.
    """

    def __init__(self, eval_metric: EvalMetric) -> None:
        super().__init__(eval_metric=eval_metric)  # type: ignore[call-arg]  # of a subclass: each of them names its own criterion
        self._auto_rater_response_parser = _VerdictParser()

    async def _evaluate_single_sample(
        self, llm_request: LlmRequest, actual: Invocation, expected: Invocation | None
    ) -> PerInvocationResult:
        _judged_turn.set(actual)  # each sample is a task with a context of its own
        return await super()._evaluate_single_sample(llm_request, actual, expected)

    def convert_auto_rater_response_to_score(self, auto_rater_response: LlmResponse) -> AutoRaterScore:
        self.create_effective_rubrics_list(_judged_turn.get().rubrics)
        read = super().convert_auto_rater_response_to_score(auto_rater_response)
        said = quote_judge(get_text_from_content(auto_rater_response.content) or "")
        scores: list[RubricScore] = []
        for rubric in self.get_effective_rubrics_list():
            verdicts = [score for score in read.rubric_scores or () if score.rubric_id == rubric.rubric_id]
            if len({verdict.score for verdict in verdicts}) != 1:
                verdicts = [RubricScore(rubric_id=rubric.rubric_id, rationale=said)]
            scores += verdicts
        return AutoRaterScore(score=read.score, rubric_scores=scores)


class _AnswerEvaluator(FinalResponseMatchV2Evaluator):
    """Gives an unclear verdict no score: ADK takes every value of `is_the_agent_response_invalid` but two for valid."""

    def convert_auto_rater_response_to_score(self, llm_response: LlmResponse) -> AutoRaterScore:
        read = super().convert_auto_rater_response_to_score(llm_response)
        says_valid = _VALID.search(get_text_from_content(llm_response.content) or "")
        return AutoRaterScore() if read.score == 1.0 and not says_valid else read


_VALID = re.compile(r'_response_(?:valid"|invalid":[\s\["]*(?:false|valid)\b)')


class SentenceEvaluator(hallucinations_v1.HallucinationsV1Evaluator):
    """Lists the sentences of each answer like rubrics, those without a label with what the judge said.

    ADK leaves sentences without a label out of the score.

    Attributes:
        replies: all replies of the judge so far; set by `ModelLog.listen`.
    """

    replies: Sequence[str] = ()

    def __init__(self, eval_metric: EvalMetric) -> None:
        super().__init__(eval_metric=eval_metric)
        self._sentences: list[list[RubricScore]] = []

    async def evaluate_invocations(self, *arguments: Any, **named: Any) -> EvaluationResult:
        result = await super().evaluate_invocations(*arguments, **named)
        turns = result.per_invocation_results
        for turn, sentences in zip(turns, self._sentences, strict=True):
            turn.rubric_scores = sentences
        summary = MeanInvocationResultsSummarizer().summarize(turns, self._criterion.threshold)
        result.overall_rubric_scores = summary.overall_rubric_scores
        return result

    def _get_steps_to_evaluate(self, actual: Invocation) -> list[hallucinations_v1.EvaluationStep]:
        self._sentences.append([])
        return super()._get_steps_to_evaluate(actual)

    async def _evaluate_nl_response(self, nl_response: str, context: str) -> tuple[float | None, str]:
        earlier = len(self.replies)
        score, said = await super()._evaluate_nl_response(nl_response, context)
        replies = self.replies[earlier:]
        has_results = said.startswith("[")  # else it is an error
        results = json.loads(said) if has_results else []
        sentences = hallucinations_v1._parse_sentences(replies[0]) if replies else []
        sentences = sentences or [excerpt(nl_response)]
        missing = quote_judge(replies[-1]) if has_results and replies else said
        self._sentences[-1] += [
            _sentence_score(sentence, result, missing)
            for sentence, result in zip(sentences, pair_sentences(sentences, results), strict=True)
        ]
        return score, said


def _sentence_score(sentence: str, result: Mapping[str, str | None] | None, missing: str) -> RubricScore:
    label = (result or {}).get("label") or ""
    is_supported = label.lower() in hallucinations_v1._POSITIVE_LABELS
    if is_supported or label.lower() in hallucinations_v1._NEGATIVE_LABELS:
        rationale = f"{label}: {(result or {}).get('rationale')}"
        return RubricScore(rubric_id=sentence, score=float(is_supported), rationale=rationale)
    return RubricScore(rubric_id=sentence, rationale=quote_judge(label) if label else missing)


MODEL_ATTRIBUTES = ("_judge_model", "_llm")
"""Attributes in which evaluators and user simulators hold their model."""


def replace_model(asker: object, wrap: Callable[[BaseLlm], BaseLlm]) -> None:
    """Wrap the model of an evaluator or a user simulator."""
    for name in MODEL_ATTRIBUTES:
        model = getattr(asker, name, None)
        if isinstance(model, BaseLlm):
            setattr(asker, name, wrap(model))


async def resolve_model(context: CallbackContext) -> BaseLlm:
    """Return the model that receives an agent's requests."""
    return await resolve_llm(context.get_invocation_context())


def disable_client_retries(request: LlmRequest) -> None:
    """Turn off google-genai's retries of a request, unless its agent or judge configures them.

    ADK's evaluation adds retries to every request that configures none.
    """
    request.config = request.config or types.GenerateContentConfig()
    options = request.config.http_options = request.config.http_options or types.HttpOptions()
    if options.retry_options in (None, retrying._DEFAULT_HTTP_RETRY_OPTIONS):
        options.retry_options = types.HttpRetryOptions(attempts=1)


def copy_with_description(tool: BaseTool, description: str) -> BaseTool:
    """Return a copy of a tool whose declaration has another description, made as ADK's toolsets rename tools."""
    described = copy.copy(tool)
    described.description = description
    declare = described._get_declaration

    def declare_with_description() -> types.FunctionDeclaration | None:
        declaration = declare()
        return declaration and declaration.model_copy(update={"description": description})

    described._get_declaration = declare_with_description  # type: ignore[method-assign]
    return described


def is_declared(tool: BaseTool) -> bool:
    """Tell whether requests declare a tool as a function, which has a description."""
    return tool._get_declaration() is not None


def invoke_callback(callback: Callable[..., Any], **arguments: Any) -> Any:
    """Call an agent's callback as ADK does: by keyword, or by position where its parameters have other names."""
    return _invoke_callback(callback, **arguments)


def load_agent(agents_dir: Path, app_name: str) -> tuple[Agent, App | None]:
    """Load an agent with its `.env` as `adk web` does. Exceptions of its code are not caught.

    Raises:
        ValueError: the folder has no agent.
    """
    from google.adk.cli.utils._nested_agent_loader import NestedAgentLoader

    loader = NestedAgentLoader(str(agents_dir))
    with explain_unloadable_name(Path(loader.agents_dir), app_name):
        loaded = loader.load_agent(app_name)
    return split_app(loaded, app_name)


def split_app(loaded: Agent | App, name: str) -> tuple[Agent, App | None]:
    """Return the root agent of an `App`, and the `App`; an agent has none.

    Raises:
        ValueError: the `App` has no agent.
    """
    if not isinstance(loaded, App):
        return loaded, None
    if loaded.root_agent is None:
        raise ValueError(f"The App of {name!r} has no root agent.")
    return loaded.root_agent, loaded


async def generate_invocations(
    agent: Agent,
    *,
    app: App | None,
    simulator: UserSimulator,
    start: SessionInput,
    session_id: str,
    sessions: BaseSessionService,
    artifacts: BaseArtifactService,
    memory: BaseMemoryService,
    live_timeout: int | None = None,
) -> list[Invocation]:
    """Run a case's conversation and return its invocations.

    The parameters are those of `EvaluationGenerator._generate_inferences_from_root_agent`.

    Args:
        live_timeout: seconds; makes the conversation bidirectional.
    """
    shared: dict[str, Any] = {
        "root_agent": agent,
        "user_simulator": simulator,
        "initial_session": start,
        "session_id": session_id,
        "session_service": sessions,
        "artifact_service": artifacts,
        "memory_service": memory,
        "app": app,
    }
    if live_timeout is None:
        return await EvaluationGenerator._generate_inferences_from_root_agent(**shared)
    return await EvaluationGenerator._generate_inferences_from_root_agent_live(
        **shared, live_timeout_seconds=live_timeout
    )
