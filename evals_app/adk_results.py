"""Runs as ADK's front end reads results: `EvalSetResult`, camel case (`google/adk/evaluation/eval_result.py`)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from evals_app import resultfiles
from evals_app.evalsets.schema import Invocation
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from sessions_app.errors import NotFound

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
"""ADK's numbers (`EvalStatus`). What is neither passed nor failed was not evaluated."""

WHY = "why"
"""Rubric under which the reason stands why something was not evaluated: ADK has no field for it, and shows these."""


def ids(app_name: str, agent_folder: Path) -> list[str]:
    """Return the ids of an app's results: of ended runs, and of files that `adk web` left and that are not here."""
    ended = EvalRun.objects.filter(app_name=app_name).exclude(status__in=EvalRun.ACTIVE)
    rows = ended.order_by("created_at").values_list("evalset__evalset_id", "created_at")
    known = [f"{app_name}_{evalset_id}_{created_at}" for evalset_id, created_at in rows]
    files = (path.name.removesuffix(resultfiles.SUFFIX) for path in resultfiles.files_of(agent_folder))
    return list(dict.fromkeys([*known, *files]))


def result(app_name: str, agent_folder: Path, result_id: str) -> Json:
    """Return a result.

    Raises:
        NotFound: the app has none with this id.
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
    for path in resultfiles.files_of(agent_folder):
        if path.name == f"{result_id}{resultfiles.SUFFIX}":
            found = resultfiles.read(path).model_dump(mode="json", by_alias=True, exclude_none=True)
            return {**found, "evalSetResultName": result_id}
    raise NotFound(f"Eval set result `{result_id}` not found.", hint="GET …/eval_results lists them.")


def case_results(run: EvalRun) -> Iterator[Json]:
    """Yield what became of each case, once for each repetition."""
    attempts = run.attempts.select_related("session").prefetch_related("results")
    expected = {
        index: case.get("conversation") or []
        for index, case in enumerate(json.loads(run.version.content)["eval_cases"])
    }
    for attempt in attempts.order_by("case_index", "repetition"):
        yield _case(run, attempt, expected.get(attempt.case_index, []))


def _case(run: EvalRun, attempt: EvalAttempt, expected: Iterable[Json]) -> Json:
    rows = sorted(attempt.results.all(), key=lambda row: row.position)
    session = attempt.session
    overall = [_metric(row) for row in rows if row.invocation is None]
    return {
        "evalSetFile": run.evalset.path,
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
    for number, (actual, wanted) in enumerate(zip_longest(json.loads(attempt.actual), expected)):
        if actual is None:
            return
        turn = {"actualInvocation": _camel(actual), "evalMetricResults": by_turn.get(number, [])}
        yield turn if wanted is None else {**turn, "expectedInvocation": _camel(wanted)}


def _metric(row: MetricResult) -> Json:
    said: Json = {
        "metricName": row.metric,
        "evalStatus": METRIC[MetricResult.Status(row.status)],
        "details": {},
    }
    for name, value in (("threshold", row.threshold), ("score", row.score)):
        if value is not None and math.isfinite(value):
            said[name] = value
    rubrics = json.loads(row.details).get("rubrics") or []
    scores = [
        {"rubricId": one.get("rubric_id", ""), **_given(one, "rationale", "score")}
        for one in rubrics
        if isinstance(one, Mapping)
    ]
    if row.reason and row.status == MetricResult.Status.NOT_EVALUATED:
        scores.append({"rubricId": WHY, "rationale": row.reason})
    if scores:
        said["details"] = {"rubricScores": scores}
    return said


def _failure(attempt: EvalAttempt) -> list[Json]:
    """Return why an attempt has no scores, in the place where ADK's front end shows scores."""
    if not attempt.error:
        return []
    why = {"rubricId": WHY, "rationale": f"{attempt.error_type}: {attempt.error}"}
    return [{"metricName": "run", "evalStatus": FAILED, "details": {"rubricScores": [why]}}]


def _given(found: Mapping[str, Any], *names: str) -> Json:
    return {name: found[name] for name in names if found.get(name) is not None}


def _camel(invocation: Json) -> Json:
    return Invocation.model_validate(invocation).model_dump(mode="json", by_alias=True, exclude_none=True)


def _run(app_name: str, result_id: str) -> EvalRun | None:
    """Return the run that an id names: app, evalset and the time of its start, as ADK makes them."""
    named, _, stamp = result_id.rpartition("_")
    if not named.startswith(f"{app_name}_"):
        return None
    try:
        started = float(stamp)
    except ValueError:
        return None
    runs = EvalRun.objects.select_related("evalset", "version").filter(app_name=app_name, created_at=started)
    return runs.filter(evalset__evalset_id=named.removeprefix(f"{app_name}_")).first()
