"""One attempt: a case run once in a realm of its own, and scored."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.db.models import QuerySet
from google.adk.apps.app import App
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.evaluation.eval_case import EvalCase, Invocation, SessionInput
from google.adk.evaluation.eval_config import EvalConfig
from google.adk.evaluation.eval_metrics import EvalMetric
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.simulation.user_simulator import UserSimulator
from google.adk.evaluation.simulation.user_simulator_provider import UserSimulatorProvider
from google.adk.events.event import Event
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.sessions.session import Session
from typing_extensions import override

from evals_app.execution import _adk, nested_calls, reached_states, scoring
from evals_app.execution.evaluators import MetricUnavailable, evaluator_class
from evals_app.execution.fixtures import FixturePlugin, FixturesByCase, create_fixture_plugin
from evals_app.execution.judge_models import ModelLog, sum_tokens
from evals_app.execution.model_retry import Retries, RetryPlugin
from evals_app.execution.rate_limiter import RateLimiter
from evals_app.execution.replay import NotRecorded, ReplayPlugin, create_replay
from evals_app.files.schema import DEFAULT_USER
from evals_app.metrics.catalog import ADK_METRICS
from evals_app.metrics.invocations import NestedCalls
from evals_app.metrics.own import ReachedStates
from evals_app.models import EvalAttempt
from evals_app.rates.rate_limits import NO_LIMITS, RateLimits
from evals_app.runs.attempt_status import STORE_LOST
from evals_app.runs.limits import RETRY_SECONDS
from evals_app.runs.replay.policy import RECORDED, ReplayPolicy
from evals_app.runs.writes import attempts, model_usage
from evals_app.runs.writes.outcomes import MetricScore, Outcome
from sessions_app.adk.recorder import Recorder
from sessions_app.adk.service import DjangoSessionService
from sessions_app.delivery.failure import Failure
from sessions_app.runs.agent_exit import AgentExited
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.compiled_query import CompiledQuery
from sessions_app.store.errors import BadInput, StoreFault
from sessions_app.store.models import AgentSession
from sessions_app.store.scopes import EVALUATION_KEY
from sessions_app.store.sessions.writes import UntrackedWrite
from sessions_app.store.traces.outbox import outbox

SESSION_PREFIX = "adk-eval-session-"
"""Prefix of ADK's eval sessions, which its front end omits from its list."""

OUTBOX_WAIT_S = 5.0
"""Maximum seconds that the end of an attempt waits for its recorded model calls to be written."""

LAZY_IMPORTS = (
    "google.adk.flows.llm_flows.auto_flow",
    "google.adk.auth.auth_preprocessor",
    "google.adk.auth.auth_handler",
)
"""Modules that ADK imports in its first run, which would count as time of the first case."""


@dataclass(frozen=True)
class RunPlan:
    """Data that all attempts of a run share.

    Attributes:
        retry_seconds: how long a model call is retried (`limits.EvalRunLimits`).
        rate_limits: of model calls.
        waiting: called when an attempt begins to wait for a model, and when it continues.
    """

    app_name: str
    agent: _adk.Agent
    app: App | None
    config: EvalConfig
    metrics: Sequence[EvalMetric]
    cases: Sequence[EvalCase]
    policy: ReplayPolicy = ReplayPolicy()
    fixtures: FixturesByCase = ()
    retry_seconds: float | None = RETRY_SECONDS
    rate_limits: RateLimits = NO_LIMITS
    waiting: Callable[[EvalAttempt], None] | None = None


class UnansweredTurns(Exception):
    """The agent produced no event in some turns."""


class SimulatorUnavailable(Exception):
    """The simulated user of a scenario cannot be created."""


def warm_up(metrics: Iterable[EvalMetric]) -> None:
    """Import what the first attempt would import, so that its times are its own."""
    for name in LAZY_IMPORTS:
        importlib.import_module(name)
    for metric in metrics:
        if not metric.custom_function_path and metric.metric_name in ADK_METRICS:
            with contextlib.suppress(MetricUnavailable):
                evaluator_class(metric.metric_name)


@dataclass
class Trial:
    """Data collected while an attempt runs, also for an attempt that is interrupted."""

    actual: list[Invocation] | None = None
    replay: ReplayPlugin | None = None
    fixtures: FixturePlugin | None = None
    retry: RetryPlugin | None = None
    simulated: ModelLog = field(default_factory=ModelLog)
    lost_store: StoreFault | None = None
    judged: scoring.AttemptScores = field(default_factory=scoring.AttemptScores)


class AttemptSessions(DjangoSessionService):
    """Session service of an attempt; it drops the marks of ADK's evaluation and remembers failures of the store."""

    def __init__(self, realm: str, trial: Trial) -> None:
        super().__init__(realm)
        self._trial = trial

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event without the marks of ADK's evaluation.

        Raises:
            StoreFault: the store failed.
        """
        event.actions.state_delta.pop(EVALUATION_KEY, None)
        metadata = event.custom_metadata
        if metadata and EVALUATION_KEY in metadata:  # ADK looks for it in the event, after the run
            public_metadata = {name: value for name, value in metadata.items() if name != EVALUATION_KEY}
            event.custom_metadata = public_metadata or None
        try:
            return await super().append_event(session, event)
        except StoreFault as fault:
            self._trial.lost_store = self._trial.lost_store or fault
            raise
        finally:
            event.custom_metadata = metadata

    @override
    async def note_untracked(self, session: Session, invocation_id: str, keys: list[UntrackedWrite]) -> None:
        """Store the keys that an invocation changed without an event."""
        if agents := [key for key in keys if key.name != EVALUATION_KEY]:
            await super().note_untracked(session, invocation_id, agents)


async def run_attempt(plan: RunPlan, attempt: EvalAttempt) -> Outcome:
    """Run a case once and score it. Exceptions of the agent are returned as the outcome's failure.

    Raises:
        asyncio.CancelledError: the attempt is cancelled from outside.
    """
    trial = Trial()
    case = plan.cases[attempt.case_index].model_copy(deep=True)
    judged = trial.judged
    retries = judged.retries = trial.simulated.retries = _make_retries(plan, attempt)
    trial.retry = RetryPlugin(retries, is_replayed=plan.policy.models == RECORDED)
    try:
        _require_replayable_models(plan)
        trial.replay = await units_of_work.read(create_replay, plan.policy, attempt)
        trial.fixtures = create_fixture_plugin(plan.fixtures, attempt)
        trial.actual = actual = await _run_conversation(plan, case, attempt.realm, trial)
        _require_undisturbed(trial)
        _require_all_turns(case, actual)

        async def note_judge(metric: str) -> None:
            await retry.write(attempts.note_judge, attempt.pk, metric, attempt.tries)

        read_states = partial(_read_states, attempt, actual)
        read_nested = partial(_read_nested, attempt, actual)
        await scoring.score_attempt(judged, plan.metrics, case, actual, read_states, read_nested, note_judge)
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        if isinstance(error, SystemExit):
            error = AgentExited.of(error)
        failure = _explain_failure(trial, error)
        return await interrupted_outcome(attempt, EvalAttempt.Status.ERROR, failure, trial)
    status = scoring.verdict(judged.scores)
    if unavailable := _unavailable_failure(trial, status):
        return await _build_outcome(attempt, trial, EvalAttempt.Status.ERROR, judged.scores, unavailable)
    return await _build_outcome(attempt, trial, status, judged.scores)


def _make_retries(plan: RunPlan, attempt: EvalAttempt) -> Retries:
    """Return the retries of an attempt's models; its row shows that it waits."""

    async def report(waits_for: str, waited: float) -> None:
        attempt.waits_for, attempt.waited_seconds = waits_for, waited
        await retry.write(attempts.note_waiting, attempt.pk, waits_for, waited, attempt.tries)
        if plan.waiting:
            plan.waiting(attempt)

    return Retries(plan.retry_seconds, report, RateLimiter(plan.rate_limits, attempt.runtime_id))


def _unavailable_failure(trial: Trial, status: EvalAttempt.Status | None = None) -> Failure | None:
    """Return the failure of an attempt whose model was given up, unless its verdict is valid.

    An agent that passes without its model has passed. A lost agent model or simulated user invalidates a failure; a
    lost judge does not: the verdicts of other metrics are valid.
    """
    if status == EvalAttempt.Status.PASSED:
        return None
    losses = {
        "": trial.retry and trial.retry.unavailable,
        "The simulated user: ": trial.simulated.unavailable,
    }
    if status in {None, EvalAttempt.Status.INCOMPLETE}:
        losses["The judge: "] = trial.judged.unavailable
    lost = ((label, failure) for label, failure in losses.items() if failure)
    label, failure = next(lost, ("", None))
    return failure and replace(failure, message=f"{label}{failure.message}")


async def interrupted_outcome(
    attempt: EvalAttempt,
    status: EvalAttempt.Status,
    failure: Failure | None = None,
    trial: Trial | None = None,
) -> Outcome:
    """Return the outcome of an attempt that was interrupted or raised, with the events stored until then."""
    trial = trial or Trial()
    if trial.actual is None:
        trial.actual = await _stored_invocations(attempt.realm)
    return await _build_outcome(attempt, trial, status, failure=failure)


def is_cancelled() -> bool:
    """Tell whether the current task is being cancelled, as opposed to an agent that raises `CancelledError`."""
    return (task := asyncio.current_task()) is None or task.cancelling() > 0


async def _build_outcome(
    attempt: EvalAttempt,
    trial: Trial,
    status: EvalAttempt.Status,
    scores: Sequence[MetricScore] = (),
    failure: Failure | None = None,
) -> Outcome:
    await outbox().wait_written(OUTBOX_WAIT_S)
    session_pk, tokens, used = await retry.read(_read_usage, attempt.realm)
    is_replayed = trial.replay is not None and trial.replay.answers_for_models
    return Outcome(
        status,
        session_pk,
        # The tokens of a recorded answer were spent when it was recorded.
        used.total("prompt") + used.total("output") if is_replayed else tokens,
        _as_json(trial.actual or []),
        scores,
        failure,
        prompt_tokens=used.total("prompt"),
        output_tokens=used.total("output"),
        cached_tokens=used.total("cached"),
        by_model=used.by_model,
        model_seconds=used.seconds,
        judge=sum_tokens(trial.judged.judges, trial.simulated.by_model),
        differences=trial.replay.differences if trial.replay else (),
        fixture_answers=trial.fixtures.answers if trial.fixtures else (),
    )


async def _read_states(attempt: EvalAttempt, actual: Sequence[Invocation]) -> ReachedStates:
    """Return the states that an attempt reached."""
    session_pk, _ = await retry.read(_find_session, attempt.realm)
    if session_pk is None:
        return ReachedStates()
    return await retry.read(
        reached_states.read_states, session_pk, [invocation.invocation_id for invocation in actual]
    )


async def _read_nested(attempt: EvalAttempt, actual: Sequence[Invocation]) -> list[NestedCalls]:
    """Return the tool calls of the agents nested in each turn of an attempt."""
    await outbox().wait_written(OUTBOX_WAIT_S)
    session_pk, _ = await retry.read(_find_session, attempt.realm)
    if session_pk is None:
        return [{} for _ in actual]
    return await retry.read(
        nested_calls.read_nested_calls, session_pk, [invocation.invocation_id for invocation in actual]
    )


def _explain_failure(trial: Trial, error: BaseException) -> Failure:
    """Return the failure of an attempt, with errors of store, models and replay in plain words."""
    if trial.lost_store is None and isinstance(error, StoreFault):
        trial.lost_store = error
    if trial.lost_store is not None:
        return Failure(STORE_LOST, f"{trial.lost_store.message} {trial.lost_store.hint}".strip())
    if unavailable := _unavailable_failure(trial):
        return unavailable
    if trial.replay is not None and trial.replay.not_recorded is not None:
        error = trial.replay.not_recorded
    elif trial.retry is not None:
        error = trial.retry.find_last_error(error)
    if isinstance(error, NotRecorded):
        return Failure("NotRecorded", " ".join(filter(None, (str(error), error.hint))))
    failure = Failure.of(error)
    if isinstance(error, SimulatorUnavailable) or trial.simulated.errors:
        message = f"The simulated user could not be asked: {failure.message}"
        return replace(failure, message=f"{message} (user_simulator_config names its model.)")
    return failure


async def _run_conversation(plan: RunPlan, case: EvalCase, realm: str, trial: Trial) -> list[Invocation]:
    start = case.session_input
    if start is not None and not start.app_name and plan.app is None:
        raise BadInput(
            "session_input.app_name of the case is empty: app_name is required when the agent is no App.",
            hint="Name the agent there, or leave session_input out.",
        )
    live = plan.config.live_model_config
    return await _adk.generate_invocations(
        plan.agent,
        app=_wrap_app(plan, trial),
        simulator=_build_simulator(plan, case, trial.simulated),
        start=SessionInput(
            app_name=plan.app_name,
            user_id=start.user_id if start else DEFAULT_USER,
            session_id=start.session_id if start else None,
            state=start.state if start else {},
        ),
        session_id=f"{SESSION_PREFIX}{uuid.uuid4()}",
        sessions=AttemptSessions(realm, trial),
        artifacts=InMemoryArtifactService(),
        memory=InMemoryMemoryService(),
        live_timeout=live.timeout_seconds if live else None,
    )


def _build_simulator(plan: RunPlan, case: EvalCase, log: ModelLog) -> UserSimulator:
    """Return the user: the messages of the file, or a model in a scenario.

    Raises:
        SimulatorUnavailable: its model cannot be created.
    """
    try:
        simulator = UserSimulatorProvider(plan.config.user_simulator_config).provide(case)
    except Exception as error:
        raise SimulatorUnavailable(str(error)) from error
    log.listen(simulator)
    return simulator


def _wrap_app(plan: RunPlan, trial: Trial) -> App:
    """Return the app with DevUI's plugins: retries and recorder first, fixtures and replay last.

    Retries come before the recorder, which then sees no temporary errors. Fixtures and replay come last, so that
    callbacks of the app's own plugins work.
    """
    app = plan.app or App(name="evaluated", root_agent=plan.agent)
    plugins = [trial.retry, Recorder(), *app.plugins, trial.fixtures, trial.replay]
    return app.model_copy(update={"plugins": [plugin for plugin in plugins if plugin]})


def _require_replayable_models(plan: RunPlan) -> None:
    """Refuse to replay models of a live connection, whose answers depend on time.

    Raises:
        NotRecorded: models shall answer as recorded, over a live connection.
    """
    if plan.config.live_model_config is not None and plan.policy.models == RECORDED:
        raise NotRecorded(
            "Models that are spoken with live cannot answer from a recording.", "Let models be live."
        )


def _require_undisturbed(trial: Trial) -> None:
    """End an attempt whose agent swallowed the error of a missing recording or of the store.

    Raises:
        NotRecorded: the recording lacks an answer.
        StoreFault: the session lacks events.
    """
    if trial.replay is not None and trial.replay.not_recorded is not None:
        raise trial.replay.not_recorded
    if trial.lost_store is not None:
        raise trial.lost_store


def _require_all_turns(case: EvalCase, actual: Sequence[Invocation]) -> None:
    """Refuse a conversation that lacks turns: scores go by position and would belong to another turn.

    Raises:
        UnansweredTurns: turns are missing; the message says how many.
    """
    if case.conversation is None and not actual:
        raise UnansweredTurns(
            "The simulated user said nothing, or the agent answered nothing: there is no turn."
        )
    if case.conversation is not None and len(actual) != len(case.conversation):
        raise UnansweredTurns(
            f"The agent answered {len(actual)} of {len(case.conversation)} turns: for the others it produced no"
            " event at all, so nothing can be compared."
        )


async def _stored_invocations(realm: str) -> list[Invocation]:
    """Return the invocations that were stored before an agent raised."""
    row = await retry.read(AgentSession.objects.filter(realm=realm).order_by("pk").first)
    if row is None:
        return []
    get = partial(
        DjangoSessionService(realm=realm).get_session,
        app_name=row.app_name,
        user_id=row.user_id,
        session_id=row.session_id,
    )
    session = await retry.run(get)
    return EvaluationGenerator.convert_events_to_eval_invocations(session.events) if session else []


def _first_session(realm: str) -> list[QuerySet[AgentSession, tuple[int, int]]]:
    sessions = AgentSession.objects.filter(realm=realm).order_by("pk")
    return [sessions.values_list("pk", "total_tokens")[:1]]


_SESSION = CompiledQuery(_first_session, "a realm")


def _find_session(realm: str) -> tuple[int | None, int]:
    """Return key and tokens of the session of an attempt."""
    rows = _SESSION.rows(realm)
    return rows[0][1:] if rows else (None, 0)


def _read_usage(realm: str) -> tuple[int | None, int, model_usage.Usage]:
    """Return key and tokens of the session of an attempt, and the usage of its models."""
    session_pk, tokens = _find_session(realm)
    return session_pk, tokens, model_usage.read_usage(session_pk) if session_pk else model_usage.Usage()


def _as_json(actual: Sequence[Invocation]) -> list[dict[str, Any]]:
    """Return invocations as JSON values, without instructions and tool declarations."""
    return [
        invocation.model_dump(mode="json", exclude_none=True, exclude={"app_details"})
        for invocation in actual
    ]
