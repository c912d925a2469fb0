"""Runs as eval results of ADK: camel case for its front end, snake case for its files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from evals_app.files import adk_results
from evals_app.files.adk_results import (
    AdkCaseResult,
    AdkEvalStatus,
    AdkMetricResult,
    EvalsetResult,
    MetricDetails,
    TurnResult,
)
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from sessions_app.store.errors import NotFound
from sessions_app.store.models import AgentSession
from sessions_app.store.state import history
from sessions_app.transfer.readers.event_schema import snake_case

Json = dict[str, Any]

ATTEMPT_STATUS = {
    EvalAttempt.Status.PASSED: AdkEvalStatus.PASSED,
    EvalAttempt.Status.FAILED: AdkEvalStatus.FAILED,
    EvalAttempt.Status.ERROR: AdkEvalStatus.FAILED,
}
"""Other statuses are not evaluated."""

AMOUNTS = {"token_usage_v1": "token_usage_details", "invocation_duration_v1": "duration_details"}
"""Metric → ADK's field for the amounts that its score sums up."""

WHY = "why"
"""Rubric that holds the reason why something was not evaluated: ADK has no field for it, and shows rubrics."""


def ids(app_name: str, agent_folder: Path) -> list[str]:
    """Return the ids of an app's results: of ended runs, and of result files that are not imported."""
    ended = EvalRun.objects.filter(app_name=app_name).exclude(status__in=EvalRun.ACTIVE)
    rows = ended.order_by("created_at").values_list("evalset__evalset_id", "created_at")
    run_ids = [f"{app_name}_{evalset_id}_{created_at}" for evalset_id, created_at in rows]
    files = (
        path.name.removesuffix(adk_results.SUFFIX) for path in adk_results.find_result_files(agent_folder)
    )
    return list(dict.fromkeys([*run_ids, *files]))


def result(app_name: str, agent_folder: Path, result_id: str) -> Json:
    """Return a result.

    Raises:
        NotFound: the app has no result with this id.
        BadInput: its file cannot be read.
    """
    run = _find_run(app_name, result_id)
    if run is not None:
        return _dump_model(_evalset_result(run, result_id, case_results(run)))
    for path in adk_results.find_result_files(agent_folder):
        if path.name == f"{result_id}{adk_results.SUFFIX}":
            return _dump_model(
                adk_results.read_result(path).model_copy(update={"eval_set_result_name": result_id})
            )
    raise NotFound(f"Eval set result `{result_id}` not found.", hint="GET …/eval_results lists them.")


def case_results_json(run: EvalRun) -> list[Json]:
    """Return the results of the cases, one per repetition, as ADK's front end reads them."""
    return [_dump_model(case_result) for case_result in case_results(run)]


def case_results(run: EvalRun, *, sessions: bool = False) -> Iterator[AdkCaseResult]:
    """Yield the results of the cases, one per repetition.

    Args:
        sessions: include the session and the criteria of each, as ADK's own files do.
    """
    attempts = run.attempts.select_related("session").prefetch_related("results")
    criteria = (json.loads(run.config).get("criteria") or {}) if sessions else {}
    cases = json.loads(run.version.content)["eval_cases"]
    for attempt in attempts.order_by("case_index", "repetition"):
        case = cases[attempt.case_index] if attempt.case_index < len(cases) else {}
        case_result = _case_result(run, attempt, case.get("conversation") or [], criteria)
        if sessions and attempt.session:
            case_result.session_details = _session_json(attempt.session)
        yield case_result


def _case_result(
    run: EvalRun, attempt: EvalAttempt, expected: Iterable[Json], criteria: Mapping[str, Any]
) -> AdkCaseResult:
    rows = sorted(attempt.results.all(), key=lambda row: row.position)
    session = attempt.session
    overall = [_metric_result(row, criteria) for row in rows if row.invocation is None]
    return AdkCaseResult(
        eval_set_file=run.evalset.evalset_id,
        eval_set_id=run.evalset.evalset_id,
        eval_id=attempt.case_id,
        final_eval_status=ATTEMPT_STATUS.get(EvalAttempt.Status(attempt.status), AdkEvalStatus.NOT_EVALUATED),
        overall_eval_metric_results=overall or _failure_results(attempt),
        eval_metric_result_per_invocation=list(_iter_turn_results(attempt, expected, rows)),
        session_id=session.session_id if session else "",
        user_id=session.user_id if session else "",
    )


def _iter_turn_results(
    attempt: EvalAttempt, expected: Iterable[Json], rows: Iterable[MetricResult]
) -> Iterator[TurnResult]:
    by_turn: dict[int, list[AdkMetricResult]] = {}
    for row in rows:
        if row.invocation is not None:
            by_turn.setdefault(row.invocation, []).append(_metric_result(row, {}))
    for number, (actual, expected_turn) in enumerate(zip_longest(json.loads(attempt.actual), expected)):
        if actual is None:
            return
        turn = {"actual_invocation": actual, "expected_invocation": expected_turn}
        yield TurnResult.model_validate({**turn, "eval_metric_results": by_turn.get(number, [])})


def _metric_result(row: MetricResult, criteria: Mapping[str, Any]) -> AdkMetricResult:
    stored = json.loads(row.details)
    rubrics = [
        {name: rubric.get(name) for name in ("rubric_id", "rationale", "score")}
        for rubric in stored.get("rubrics") or []
        if isinstance(rubric, Mapping)
    ]
    if row.reason and row.status == MetricResult.Status.NOT_EVALUATED:
        rubrics.append({"rubric_id": WHY, "rationale": row.reason})
    details: Json = {"rubric_scores": [_without_none(rubric) for rubric in rubrics] or None}
    if row.metric in AMOUNTS:
        amounts = {name: amount for name, amount in stored.items() if isinstance(amount, int | float)}
        details[AMOUNTS[row.metric]] = amounts or None
    criterion = criteria.get(row.metric)
    return AdkMetricResult(
        metric_name=row.metric,
        threshold=_finite_or_none(row.threshold),
        criterion=dict(criterion) if isinstance(criterion, Mapping) else None,
        score=_finite_or_none(row.score),
        eval_status=AdkEvalStatus[MetricResult.Status(row.status).name],
        details=MetricDetails.model_validate(details),
    )


def _failure_results(attempt: EvalAttempt) -> list[AdkMetricResult]:
    """Return why an attempt has no scores, in the field where ADK's front end shows scores."""
    if not attempt.error:
        return []
    why = {"rubric_id": WHY, "rationale": f"{attempt.error_type}: {attempt.error}"}
    details = MetricDetails(rubric_scores=[why])
    return [AdkMetricResult(metric_name="run", eval_status=AdkEvalStatus.FAILED, details=details)]


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _without_none(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _dump_model(model: EvalsetResult | AdkCaseResult) -> Json:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def adk_result_id(run: EvalRun) -> str:
    """Return ADK's id of a run's result (`_eval_set_results_manager_utils`)."""
    return f"{run.app_name}_{run.evalset.evalset_id}_{run.created_at}".replace("/", "_")


def result_file(run: EvalRun) -> str:
    """Return a run as ADK's result file, which `adk web` reads: `EvalSetResult`, snake case.

    It belongs in `<agent>/.adk/eval_history/<id>.evalset_result.json`. Each case contains its session.
    """
    result = _evalset_result(run, adk_result_id(run), case_results(run, sessions=True))
    return json.dumps(result.model_dump(mode="json", exclude_none=True), indent=2, ensure_ascii=False)


def _evalset_result(run: EvalRun, result_id: str, cases: Iterable[AdkCaseResult]) -> EvalsetResult:
    return EvalsetResult(
        eval_set_result_id=result_id,
        eval_set_result_name=result_id,
        eval_set_id=run.evalset.evalset_id,
        eval_case_results=list(cases),
        creation_timestamp=run.created_at,
    )


def _session_json(session: AgentSession) -> Json:
    """Return a session as ADK's results hold it."""
    events = session.events.order_by("seq").values_list("data", flat=True)
    return {
        "id": session.session_id,
        "app_name": session.app_name,
        "user_id": session.user_id,
        "state": history.state_at(session).merge_scopes(),
        "events": [snake_case("Event", json.loads(data)) for data in events],
        "last_update_time": session.updated_at,
    }


def _find_run(app_name: str, result_id: str) -> EvalRun | None:
    """Return the run that an id names: app, evalset and the time of its start, as ADK makes them."""
    prefix, _, stamp = result_id.rpartition("_")
    if not prefix.startswith(f"{app_name}_"):
        return None
    try:
        started = float(stamp)
    except ValueError:
        return None
    runs = EvalRun.objects.select_related("evalset", "version").filter(app_name=app_name, created_at=started)
    return runs.filter(evalset__evalset_id=prefix.removeprefix(f"{app_name}_")).first()
