"""The only module of this package that uses names of ADK that start with an underscore. A test imports each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps.app import App
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.evaluation import _efficiency_evaluators as efficiency
from google.adk.evaluation import _retry_options_utils as retrying
from google.adk.evaluation.custom_metric_evaluator import _CustomMetricEvaluator
from google.adk.evaluation.eval_case import Invocation, SessionInput
from google.adk.evaluation.eval_metrics import EvalMetric
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.evaluator import Evaluator
from google.adk.evaluation.simulation.user_simulator import UserSimulator
from google.adk.flows.llm_flows.core._model_call import resolve_llm
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.utils._callback_pipeline import _invoke_callback
from google.adk.workflow import BaseNode
from google.genai import types

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
    try:
        return split_app(loader.load_agent(app_name), app_name)
    except ValueError:
        if reason := explain_unloadable_name(Path(loader.agents_dir), app_name):
            raise ValueError(reason) from None
        raise


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
