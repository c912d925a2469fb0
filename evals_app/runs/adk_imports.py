"""Import of eval results that `adk web` stored beside an agent: runs whose attempts have a session in a realm each."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Q

from evals_app.files import adk_results
from evals_app.files.adk_results import AdkCaseResult, AdkEvalStatus, AdkMetricResult, EvalsetResult
from evals_app.files.schema import DEFAULT_USER
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.runs.writes import imported_runs, runs
from evals_app.runs.writes.outcomes import MetricScore, Outcome
from sessions_app.store import events as wire
from sessions_app.store.errors import BadInput
from sessions_app.store.ids import check_ids
from sessions_app.store.models import ChangeCause
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions.writes import append_event, create_session
from sessions_app.transfer.readers.documents import session_events
from sessions_app.transfer.readers.records import UnreadableRow
from sessions_app.transfer.writers import ImportReport

NO_REASON_STORED = "ADK keeps no reason why a metric was not evaluated."


def fingerprints(agent_folder: Path) -> dict[str, str]:
    """Return the result files beside an agent: location → a text that changes with the file."""
    files = ((path, path.stat()) for path in adk_results.find_result_files(agent_folder))
    return {str(path.resolve()): f"{stat.st_size}-{stat.st_mtime_ns}" for path, stat in files}


def import_results(app_name: str, agent_folder: Path, report: ImportReport) -> None:
    """Import results that are neither imported already nor exported from a run of this store."""
    for path in adk_results.find_result_files(agent_folder):
        try:
            result = adk_results.read_result(path)
        except BadInput as error:
            report.unread.add(error.message)
            continue
        if _is_imported(app_name, result):
            continue
        if report.dry_run or _import_run(app_name, result, report):
            report.eval_runs += 1


def _is_imported(app_name: str, result: EvalsetResult) -> bool:
    """Tell whether the run of a result is stored: by its id from ADK, or by its evalset and time."""
    same_result = Q(
        app_name=app_name, evalset__evalset_id=result.eval_set_id, created_at=result.creation_timestamp
    )
    return EvalRun.objects.filter(Q(pk=_run_id(app_name, result)) | same_result).exists()


def _run_id(app_name: str, result: EvalsetResult) -> str:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"adk-eval/{app_name}/{result.eval_set_result_id}").hex


@transaction.atomic
def _import_run(app_name: str, result: EvalsetResult, report: ImportReport) -> bool:
    run_id = _run_id(app_name, result)
    cases = list(dict.fromkeys(case.eval_id for case in result.eval_case_results))
    repetitions: Counter[str] = Counter()
    attempts = []
    for case in result.eval_case_results:
        repetitions[case.eval_id] += 1
        index, repetition = cases.index(case.eval_id), repetitions[case.eval_id]
        realm = runs.attempt_realm(run_id, index, case.eval_id, repetition)
        attempt = EvalAttempt(
            run_id=run_id, case_index=index, case_id=case.eval_id, repetition=repetition, realm=realm
        )
        attempts.append((attempt, _attempt_outcome(app_name, case, realm, report)))
    return imported_runs.import_run(
        run_id,
        app_name,
        result.eval_set_id,
        content=_evalset_json(result, cases),
        config={"criteria": dict(adk_results.read_criteria(result))},
        attempts=attempts,
        ended_at=result.creation_timestamp,
    )


def _evalset_json(result: EvalsetResult, cases: Sequence[str]) -> Mapping[str, Any]:
    """Return the evalset as far as the results contain it."""
    expected: dict[str, list[Any]] = {}
    for case in result.eval_case_results:
        turns = [turn.expected_invocation for turn in case.eval_metric_result_per_invocation]
        expected_turns = [
            turn.model_dump(mode="json", exclude_none=True) for turn in turns if turn is not None
        ]
        expected.setdefault(case.eval_id, expected_turns)
    return {
        "eval_set_id": result.eval_set_id,
        "eval_cases": [{"eval_id": name, "conversation": expected[name]} for name in cases],
    }


def _attempt_outcome(app_name: str, case: AdkCaseResult, realm: str, report: ImportReport) -> Outcome:
    status = _attempt_status(case)
    if case.final_eval_status == AdkEvalStatus.PASSED and status != EvalAttempt.Status.PASSED:
        report.changed.add(f"case {case.eval_id}: ADK says passed, but no metric did: incomplete")
    session_pk, tokens = _import_session(app_name, case, realm, report)
    actual = [
        turn.actual_invocation.model_dump(mode="json", exclude_none=True, exclude={"app_details"})
        for turn in case.eval_metric_result_per_invocation
    ]
    return Outcome(status, session_pk, tokens, actual, list(_iter_scores(case)))


def _attempt_status(case: AdkCaseResult) -> EvalAttempt.Status:
    """Return the status by DevUI's rule: an attempt that could not be judged has not passed."""
    statuses = {metric.eval_status for metric in case.overall_eval_metric_results}
    if AdkEvalStatus.FAILED in statuses or case.final_eval_status == AdkEvalStatus.FAILED:
        return EvalAttempt.Status.FAILED
    if AdkEvalStatus.NOT_EVALUATED in statuses or AdkEvalStatus.PASSED not in statuses:
        return EvalAttempt.Status.INCOMPLETE
    return EvalAttempt.Status.PASSED


def _iter_scores(case: AdkCaseResult) -> Iterator[MetricScore]:
    positions = {
        metric.metric_name: position for position, metric in enumerate(case.overall_eval_metric_results)
    }
    for position, metric in enumerate(case.overall_eval_metric_results):
        yield _build_score(position, metric, None)
    for number, turn in enumerate(case.eval_metric_result_per_invocation):
        for metric in turn.eval_metric_results:
            yield _build_score(positions.get(metric.metric_name, len(positions)), metric, number)


def _build_score(position: int, metric: AdkMetricResult, invocation: int | None) -> MetricScore:
    stored_details = metric.details
    details: dict[str, Any] = {
        **(stored_details.token_usage_details or {}),
        **(stored_details.duration_details or {}),
    }
    if stored_details.rubric_scores:
        details["rubrics"] = stored_details.rubric_scores
    status = MetricResult.Status[metric.eval_status.name]
    unjudged = invocation is None and status == MetricResult.Status.NOT_EVALUATED
    return MetricScore(
        position,
        metric.metric_name,
        invocation,
        metric.score,
        metric.threshold,
        status,
        NO_REASON_STORED if unjudged else "",
        details,
    )


def _import_session(
    app_name: str, case: AdkCaseResult, realm: str, report: ImportReport
) -> tuple[int | None, int]:
    """Store the session of a case; return its key and tokens."""
    details = case.session_details
    if not details:
        return None, 0
    try:
        key = check_ids(
            SessionKey(realm, app_name, case.user_id or DEFAULT_USER, case.session_id or case.eval_id)
        )
        events = [event for event in session_events(details) if not isinstance(event, UnreadableRow)]
        written_keys = {name for event in events for name in event.wire["actions"]["stateDelta"]}
        seeds = {
            name: value for name, value in (details.get("state") or {}).items() if name not in written_keys
        }
        session = create_session(key, seeds, origin="import", cause=ChangeCause.IMPORT)
        for event in events:
            append_event(key, wire.build_record(dict(event.wire)), cause=ChangeCause.IMPORT)
    except BadInput as error:
        report.unread.add(f"the session of case {case.eval_id}: {error.message}")
        return None, 0
    session.refresh_from_db(fields=["total_tokens"])
    return session.pk, session.total_tokens
