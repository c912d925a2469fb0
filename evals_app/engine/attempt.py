"""One attempt: a case run once in a world of its own, and scored."""

from __future__ import annotations

import contextlib
import importlib
import traceback
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.apps.app import App
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.evaluation.eval_case import EvalCase, Invocation, SessionInput
from google.adk.evaluation.eval_config import EvalConfig
from google.adk.evaluation.eval_metrics import EvalMetric
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.simulation.user_simulator_provider import UserSimulatorProvider
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService

from evals_app.engine import _adk, scoring
from evals_app.engine.metrics import CannotRun, evaluator_class
from evals_app.models import EvalAttempt
from evals_app.writes import Failure, Outcome
from sessions_app import db
from sessions_app.adk.recorder import Recorder
from sessions_app.adk.service import DjangoSessionService
from sessions_app.errors import DevUIError
from sessions_app.models import AgentSession

SESSION_PREFIX = "adk-eval-session-"
"""ADK names the sessions of evals so, and its front end leaves them out of its list."""

DEFAULT_USER = "test_user_id"
"""ADK's user of a case that names none (`evaluation_generator._get_or_create_eval_session`)."""


LAZY = (
    "google.adk.flows.llm_flows.auto_flow",
    "google.adk.auth.auth_preprocessor",
    "google.adk.auth.auth_handler",
)
"""What ADK imports in its first run: it would be measured as the first case's time."""


@dataclass(frozen=True)
class Plan:
    """What all attempts of a run share."""

    app_name: str
    agent: _adk.Agent
    app: App | None
    config: EvalConfig
    metrics: Sequence[EvalMetric]
    cases: Sequence[EvalCase]


class Unanswered(Exception):
    """The agent left turns without a single event."""


def warm_up(metrics: Iterable[EvalMetric]) -> None:
    """Import what the first attempt would import, so that its times are its own."""
    for name in LAZY:
        importlib.import_module(name)
    for metric in metrics:
        if not metric.custom_function_path:
            with contextlib.suppress(CannotRun):
                evaluator_class(metric.metric_name)


async def run_attempt(plan: Plan, attempt: EvalAttempt) -> Outcome:
    """Run a case once and score it. What the agent raises is the outcome's failure, never an exception."""
    case = plan.cases[attempt.case_index].model_copy(deep=True)
    actual: list[Invocation] | None = None
    try:
        actual = await _infer(plan, case, attempt.realm)
        _check_turns(case, actual)
        scores = await scoring.score_attempt(plan.metrics, case, actual)
    except Exception as error:
        return await cut_short(attempt, failure_of(error), actual)
    session_pk, tokens = await db.read(_session_of, attempt.realm)
    return Outcome(scoring.verdict(scores), session_pk, tokens, _as_json(actual), scores)


async def cut_short(
    attempt: EvalAttempt, failure: Failure, actual: list[Invocation] | None = None
) -> Outcome:
    """Return the outcome of an attempt that came to no end of its own, with what the agent did until then."""
    session_pk, tokens = await db.read(_session_of, attempt.realm)
    if actual is None:
        actual = await _so_far(attempt.realm)
    return Outcome(EvalAttempt.Status.ERROR, session_pk, tokens, _as_json(actual), failure=failure)


def failure_of(error: BaseException) -> Failure:
    """Return what to keep of an exception; a refusal of our own needs no traceback."""
    if isinstance(error, DevUIError):
        return Failure(type(error).__name__, error.message, hint=error.hint)
    text = "".join(traceback.format_exception(error))
    return Failure(type(error).__name__, str(error) or type(error).__name__, text)


async def _infer(plan: Plan, case: EvalCase, realm: str) -> list[Invocation]:
    start = case.session_input
    live = plan.config.live_model_config
    return await _adk.infer(
        plan.agent,
        app=_recorded(plan),
        simulator=UserSimulatorProvider(plan.config.user_simulator_config).provide(case),
        start=SessionInput(
            app_name=plan.app_name,
            user_id=start.user_id if start else DEFAULT_USER,
            session_id=start.session_id if start else None,
            state=start.state if start else {},
        ),
        session_id=f"{SESSION_PREFIX}{uuid.uuid4()}",
        sessions=DjangoSessionService(realm=realm),
        artifacts=InMemoryArtifactService(),
        memory=InMemoryMemoryService(),
        live_timeout=live.timeout_seconds if live else None,
    )


def _recorded(plan: Plan) -> App:
    """Return the app with a recorder in front, so that an attempt's session tells who wrote what."""
    if plan.app is None:
        return App(name="evaluated", root_agent=plan.agent, plugins=[Recorder()])
    return plan.app.model_copy(update={"plugins": [Recorder(), *plan.app.plugins]})


def _check_turns(case: EvalCase, actual: Sequence[Invocation]) -> None:
    """Refuse a conversation that lacks turns: scores go by place and would be another turn's.

    Raises:
        Unanswered: naming how many turns were answered.
    """
    if case.conversation is not None and len(actual) != len(case.conversation):
        raise Unanswered(
            f"The agent answered {len(actual)} of {len(case.conversation)} turns: for the others it produced no"
            " event at all, so nothing can be compared."
        )


async def _so_far(realm: str) -> list[Invocation]:
    """Return what happened before an agent raised, from the events that were stored."""
    row = await db.read(AgentSession.objects.filter(realm=realm).order_by("pk").first)
    if row is None:
        return []
    session = await DjangoSessionService(realm=realm).get_session(
        app_name=row.app_name, user_id=row.user_id, session_id=row.session_id
    )
    return EvaluationGenerator.convert_events_to_eval_invocations(session.events) if session else []


def _session_of(realm: str) -> tuple[int | None, int]:
    """Return key and tokens of the session that an attempt ran in."""
    row = AgentSession.objects.filter(realm=realm).order_by("pk").values_list("pk", "total_tokens").first()
    return row or (None, 0)


def _as_json(actual: Sequence[Invocation]) -> list[dict[str, Any]]:
    """Return invocations as JSON values. Instructions and tool declarations are the agent's, not the attempt's."""
    return [one.model_dump(mode="json", exclude_none=True, exclude={"app_details"}) for one in actual]
