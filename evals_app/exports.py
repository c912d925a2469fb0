"""A run as a file for others to read: JSON, JUnit XML, one self-contained HTML page. Only reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree

from django.template.loader import render_to_string

from evals_app import attempts, report
from evals_app.models import EvalAttempt, EvalRun, MetricResult

Status = EvalAttempt.Status


def as_json(runs: Iterable[EvalRun]) -> str:
    """Return runs with their attempts, scores and errors as JSON text: {"runs": […]}."""
    return json.dumps({"runs": [_run_json(run) for run in runs]}, indent=2, ensure_ascii=False)


def run_json(run: EvalRun) -> str:
    """Return one run with its attempts, scores and errors as JSON text."""
    return json.dumps(_run_json(run), ensure_ascii=False)


def _run_json(run: EvalRun) -> dict[str, Any]:
    return {**run_facts(run), "attempts": [attempt_json(one) for one in _attempts(run)]}


def run_facts(run: EvalRun) -> dict[str, Any]:
    """Return what is known of a run, without its attempts."""
    return {
        "id": run.id,
        "app": run.app_name,
        "evalset": run.evalset.evalset_id,
        "path": run.evalset.path,
        "status": run.status,
        "counts": {
            "total": run.total,
            "passed": run.passed,
            "failed": run.failed,
            "error": run.errors,
            "incomplete": run.incomplete,
            "cancelled": run.cancelled,
        },
        "config": json.loads(run.config),
        "config_source": run.config_source,
        "case_ids": json.loads(run.case_ids),
        "num_runs": run.num_runs,
        "parallelism": run.parallelism,
        "warnings": json.loads(run.warnings),
        "evalset_digest": run.version.digest,
        "code_version": run.code_version,
        "git_revision": run.git_revision,
        "adk_version": run.adk_version,
        "models": json.loads(run.agent_models),
        "source": run.source,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "error": _error(run.error_type, run.error, run.traceback),
    }


def attempt_facts(attempt: EvalAttempt) -> dict[str, Any]:
    """Return what is known of an attempt, without its turns."""
    return {
        "id": attempt.pk,
        "case": attempt.case_id,
        "case_index": attempt.case_index,
        "repetition": attempt.repetition,
        "status": attempt.status,
        "session": attempt.session_id,
        "realm": attempt.realm,
        "seconds": attempt.seconds,
        "total_tokens": attempt.total_tokens,
        "error": _error(attempt.error_type, attempt.error, attempt.traceback),
    }


def metric_json(result: MetricResult) -> dict[str, Any]:
    """Return one score; `turn` counts from 1, null is the whole attempt."""
    return {
        "metric": result.metric,
        "turn": None if result.invocation is None else result.invocation + 1,
        "score": result.score,
        "threshold": result.threshold,
        "status": result.status,
        "reason": result.reason,
        "details": report.details_of(result),
    }


def attempt_json(attempt: EvalAttempt) -> dict[str, Any]:
    """Return an attempt with its scores and what the agent did."""
    return {
        **attempt_facts(attempt),
        "metrics": [metric_json(result) for result in _sorted_results(attempt)],
        "actual": json.loads(attempt.actual),
    }


def as_junit(runs: Iterable[EvalRun]) -> str:
    """Return runs as JUnit XML: a suite per run, a test case per attempt. Incomplete is an error, never a pass."""
    suites = ElementTree.Element("testsuites")
    suites.extend(_junit_suite(run) for run in runs)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)


def _junit_suite(run: EvalRun) -> ElementTree.Element:
    facts = {
        "name": _xml(f"{run.app_name}.{run.evalset.evalset_id}"),
        "tests": str(run.total),
        "failures": str(run.failed),
        "errors": str(run.errors + run.incomplete),
        "skipped": str(run.cancelled),
        "time": _seconds((run.finished_at or 0.0) - (run.started_at or 0.0)),
    }
    suite = ElementTree.Element("testsuite", facts)
    suite.extend(_junit_case(run, attempt) for attempt in _attempts(run))
    if run.error:
        ElementTree.SubElement(suite, "system-err").text = _xml(run.traceback or run.error)
    return suite


def _junit_case(run: EvalRun, attempt: EvalAttempt) -> ElementTree.Element:
    name = attempt.case_id if run.num_runs == 1 else f"{attempt.case_id} #{attempt.repetition}"
    case = ElementTree.Element(
        "testcase",
        {
            "classname": _xml(f"{run.app_name}.{run.evalset.evalset_id}"),
            "name": _xml(name),
            "time": _seconds(attempt.seconds or 0.0),
        },
    )
    if attempt.status == Status.FAILED:
        said = "; ".join(_missed(attempt))
        ElementTree.SubElement(case, "failure", {"message": _xml(said)}).text = _xml(said)
    elif attempt.status == Status.ERROR:
        facts = {"type": _xml(attempt.error_type), "message": _xml(attempt.error)}
        ElementTree.SubElement(case, "error", facts).text = _xml(attempt.traceback)
    elif attempt.status == Status.INCOMPLETE:
        said = "; ".join(_missed(attempt))
        ElementTree.SubElement(case, "error", {"type": "incomplete", "message": _xml(said)})
    elif attempt.status != Status.PASSED:
        ElementTree.SubElement(case, "skipped", {"message": str(attempt.status)})
    return case


def _missed(attempt: EvalAttempt) -> Iterator[str]:
    return (
        missed(result) for result in _sorted_results(attempt) if result.invocation is None and _bad(result)
    )


def missed(result: MetricResult) -> str:
    """Return in one line why a metric did not pass."""
    if result.status == MetricResult.Status.NOT_EVALUATED:
        return f"{result.metric}: {' '.join(result.reason.split())}"
    return f"{result.metric} {number(result.score)} < {number(result.threshold)}"


def number(value: float | None) -> str:
    """Return a score as people write it."""
    return "–" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def as_html(runs: Iterable[EvalRun]) -> str:
    """Return runs as one page that needs nothing else and runs no script."""
    return render_to_string("devui/evals/report.html", {"sections": [_section(run) for run in runs]})


def _section(run: EvalRun) -> dict[str, Any]:
    order = sorted(_attempts(run), key=lambda attempt: -report.SEVERITY[Status(attempt.status)])
    return {
        "run": run,
        "summary": report.summary(run),
        "models": json.loads(run.agent_models),
        "warnings": json.loads(run.warnings),
        "details": [attempts.detail(attempt, whole=False) for attempt in order],
    }


def _attempts(run: EvalRun) -> Iterator[EvalAttempt]:
    rows = run.attempts.select_related("run", "run__version", "run__evalset").prefetch_related("results")
    return rows.order_by("case_index", "repetition").iterator(chunk_size=200)


def _sorted_results(attempt: EvalAttempt) -> list[MetricResult]:
    return sorted(
        attempt.results.all(),
        key=lambda one: (one.position, -1 if one.invocation is None else one.invocation),
    )


def _bad(result: MetricResult) -> bool:
    return result.status in {MetricResult.Status.FAILED, MetricResult.Status.NOT_EVALUATED}


def _error(kind: str, message: str, traceback: str) -> dict[str, str] | None:
    return {"type": kind, "message": message, "traceback": traceback} if message else None


def _seconds(value: float) -> str:
    return f"{max(value, 0.0):.3f}"


def _xml(text: str) -> str:
    """Return a text without the control characters that XML 1.0 cannot hold."""
    return "".join(sign if sign >= " " or sign in "\t\n\r" else "\ufffd" for sign in text).replace(
        "\ufffe", ""
    )
