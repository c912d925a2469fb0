"""Runs as eval results of ADK's front end: `EvalSetResult`, camel case (`google/adk/evaluation/eval_result.py`)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel

from evals_app.files import adk_results
from evals_app.files.schema import Invocation
from evals_app.files.spelling import to_snake_case
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from sessions_app.errors import NotFound
from sessions_app.models import AgentSession
from sessions_app.state import history
from sessions_app.transfer.exports import snake_case

Json = dict[str, Any]

PASSED, FAILED, NOT_EVALUATED, INFORMATIONAL = 1, 2, 3, 4
ATTEMPT = {
    EvalAttempt.Status.PASSED: PASSED,
    EvalAttempt.Status.FAILED: FAILED,
    EvalAttempt.Status.ERROR: FAILED,
}
METRIC = {
    MetricResult.Status.PASSED: PASSED,
    MetricResult.Status.FAILED: FAILED,
    MetricResult.Status.NOT_EVALUATED: NOT_EVALUATED,
    MetricResult.Status.INFORMATIONAL: INFORMATIONAL,
}
"""ADK's numbers (`EvalStatus`). Other statuses are not evaluated."""

SPENT = {"token_usage_v1": "tokenUsageDetails", "invocation_duration_v1": "durationDetails"}
"""Where ADK tells what the score of a metric is the sum of."""

WHY = "why"
"""Rubric under which the reason stands why something was not evaluated: ADK has no field for it, and shows these."""


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
    run = _run(app_name, result_id)
    if run is not None:
        return {
            "evalSetResultId": result_id,
            "evalSetResultName": result_id,
            "evalSetId": run.evalset.evalset_id,
            "evalCaseResults": list(case_results(run)),
            "creationTimestamp": run.created_at,
        }
    for path in adk_results.find_result_files(agent_folder):
        if path.name == f"{result_id}{adk_results.SUFFIX}":
            data = adk_results.read_result(path).model_dump(mode="json", by_alias=True, exclude_none=True)
            return {**data, "evalSetResultName": result_id}
    raise NotFound(f"Eval set result `{result_id}` not found.", hint="GET …/eval_results lists them.")


def case_results(run: EvalRun, *, sessions: bool = False) -> Iterator[Json]:
    """Yield the results of the cases, one per repetition.

    Args:
        sessions: include the session and the criteria of each, as ADK's own files do.
    """
    attempts = run.attempts.select_related("session").prefetch_related("results")
    criteria = json.loads(run.config).get("criteria") or {}
    expected = {
        index: case.get("conversation") or []
        for index, case in enumerate(json.loads(run.version.content)["eval_cases"])
    }
    for attempt in attempts.order_by("case_index", "repetition"):
        case_result = _case(run, attempt, expected.get(attempt.case_index, []))
        if sessions:
            _add_criteria(case_result, criteria)
            if attempt.session:
                case_result["sessionDetails"] = _session(attempt.session)
        yield case_result


def _add_criteria(case: Json, criteria: Mapping[str, Any]) -> None:
    """Put beside each overall score what it was held to, where that is more than a threshold."""
    for metric in case["overallEvalMetricResults"]:
        criterion = criteria.get(metric["metricName"])
        if isinstance(criterion, Mapping):
            metric["criterion"] = dict(criterion)


def _case(run: EvalRun, attempt: EvalAttempt, expected: Iterable[Json]) -> Json:
    rows = sorted(attempt.results.all(), key=lambda row: row.position)
    session = attempt.session
    overall = [_metric(row) for row in rows if row.invocation is None]
    return {
        "evalSetFile": run.evalset.evalset_id,  # so ADK, which has no use for it any more
        "evalSetId": run.evalset.evalset_id,
        "evalId": attempt.case_id,
        "finalEvalStatus": ATTEMPT.get(EvalAttempt.Status(attempt.status), NOT_EVALUATED),
        "evalMetricResults": [],
        "overallEvalMetricResults": overall or _failure(attempt),
        "evalMetricResultPerInvocation": list(_turns(attempt, expected, rows)),
        "sessionId": session.session_id if session else "",
        "userId": session.user_id if session else "",
    }


def _turns(attempt: EvalAttempt, expected: Iterable[Json], rows: Iterable[MetricResult]) -> Iterator[Json]:
    by_turn: dict[int, list[Json]] = {}
    for row in rows:
        if row.invocation is not None:
            by_turn.setdefault(row.invocation, []).append(_metric(row))
    for number, (actual, expected_turn) in enumerate(zip_longest(json.loads(attempt.actual), expected)):
        if actual is None:
            return
        turn = {"actualInvocation": _camel(actual), "evalMetricResults": by_turn.get(number, [])}
        yield turn if expected_turn is None else {**turn, "expectedInvocation": _camel(expected_turn)}


def _metric(row: MetricResult) -> Json:
    data: Json = {
        "metricName": row.metric,
        "evalStatus": METRIC[MetricResult.Status(row.status)],
        "details": {},
    }
    for name, value in (("threshold", row.threshold), ("score", row.score)):
        if value is not None and math.isfinite(value):
            data[name] = value
    details = json.loads(row.details)
    rubrics = details.get("rubrics") or []
    scores = [
        {"rubricId": rubric.get("rubric_id", ""), **_select_values(rubric, "rationale", "score")}
        for rubric in rubrics
        if isinstance(rubric, Mapping)
    ]
    if row.reason and row.status == MetricResult.Status.NOT_EVALUATED:
        scores.append({"rubricId": WHY, "rationale": row.reason})
    if scores:
        data["details"] = {"rubricScores": scores}
    amounts = {to_camel(name): amount for name, amount in details.items() if isinstance(amount, int | float)}
    if amounts and row.metric in SPENT:
        data["details"][SPENT[row.metric]] = amounts
    return data


def _failure(attempt: EvalAttempt) -> list[Json]:
    """Return why an attempt has no scores, in the field where ADK's front end shows scores."""
    if not attempt.error:
        return []
    why = {"rubricId": WHY, "rationale": f"{attempt.error_type}: {attempt.error}"}
    return [{"metricName": "run", "evalStatus": FAILED, "details": {"rubricScores": [why]}}]


def _select_values(values: Mapping[str, Any], *names: str) -> Json:
    return {name: values[name] for name in names if values.get(name) is not None}


def _camel(invocation: Json) -> Json:
    return Invocation.model_validate(invocation).model_dump(mode="json", by_alias=True, exclude_none=True)


def result_id_of(run: EvalRun) -> str:
    """Return ADK's id of a run's result (`_eval_set_results_manager_utils`)."""
    return f"{run.app_name}_{run.evalset.evalset_id}_{run.created_at}".replace("/", "_")


def result_file(run: EvalRun) -> str:
    """Return a run as ADK's result file, which `adk web` reads: `EvalSetResult`, snake case.

    It belongs in `<agent>/.adk/eval_history/<id>.evalset_result.json`. Each case contains its session.
    """
    result_id = result_id_of(run)
    document = {
        "eval_set_result_id": result_id,
        "eval_set_result_name": result_id,
        "eval_set_id": run.evalset.evalset_id,
        "eval_case_results": [_snake(case) for case in case_results(run, sessions=True)],
        "creation_timestamp": run.created_at,
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _snake(value: Any) -> Any:
    """Return our own camel case as ADK's files spell it; what it holds of agents is spelled by its own model."""
    if isinstance(value, list):
        return [_snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {to_snake_case(name): _AS_STORED.get(name, _snake)(item) for name, item in value.items()}


def _invocation(value: Json) -> Json:
    return Invocation.model_validate(value).model_dump(mode="json", exclude_none=True)


def _session(session: AgentSession) -> Json:
    """Return a session as ADK's results hold it."""
    events = session.events.order_by("seq").values_list("data", flat=True)
    return {
        "id": session.session_id,
        "app_name": session.app_name,
        "user_id": session.user_id,
        "state": history.state_at(session).merged(),
        "events": [snake_case("Event", json.loads(data)) for data in events],
        "last_update_time": session.updated_at,
    }


_AS_STORED: dict[str, Callable[[Any], Any]] = {
    "actualInvocation": _invocation,
    "expectedInvocation": _invocation,
    "sessionDetails": lambda value: value,
    "criterion": lambda value: value,
}


def _run(app_name: str, result_id: str) -> EvalRun | None:
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
