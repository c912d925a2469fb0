"""Export of runs as JUnit XML for CI. Read-only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from xml.etree import ElementTree

from evals_app.analysis.ci_gate import GateResult, GateStatus
from evals_app.analysis.exports.run_json import iter_attempts, sorted_results
from evals_app.analysis.statistics import format_percent
from evals_app.analysis.variant_matrix import VariantColumn, VariantMatrix, read_matrix
from evals_app.metrics.number_differences import is_number_note
from evals_app.metrics.score_text import describe_score
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.runs.progress import elapsed_seconds
from evals_app.variants.variant import read_run_variant

Status = EvalAttempt.Status


GATE_CASE = "compared with earlier runs"
"""Name of the test case that says what the gate says of a run."""
GATE_CASE_ALONE = "gate"
"""Name of this test case in a run that was not to be compared."""


def as_junit(results: Iterable[GateResult]) -> str:
    """Return judged runs as JUnit XML: a suite per run, a test case per attempt, and one for the comparison.

    Incomplete is an error, never a pass; so is a run that could not be compared. A variant that was run beside the
    original is a test case without a failure: it decides nothing about the build.
    """
    suites = ElementTree.Element("testsuites")
    suites.extend(_junit_suite(result) for result in results)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)


def _junit_suite(result: GateResult) -> ElementTree.Element:
    run, gate_case, matrix = result.run, _gate_case(result), read_matrix(result.run)
    variant_cases = [_variant_case(matrix, column) for column in matrix.columns] if matrix else []
    variant = read_run_variant(run)
    name = f" (variant {variant.name})" if variant else ""
    is_worse, is_not_compared = (
        gate_case is not None and gate_case.find(kind) is not None for kind in ("failure", "error")
    )
    facts = {
        "name": _xml_text(f"{run.app_name}.{run.evalset.evalset_id}{name}"),
        "tests": str(run.total + (gate_case is not None) + len(variant_cases)),
        "failures": str(run.failed + is_worse),
        "errors": str(run.errors + run.incomplete + is_not_compared),
        "skipped": str(run.cancelled),
        "timestamp": datetime.fromtimestamp(run.started_at or run.created_at, UTC).isoformat(
            timespec="seconds"
        ),
        "time": _format_seconds(elapsed_seconds(run) or 0.0),
    }
    suite = ElementTree.Element("testsuite", facts)
    if variant:
        properties = ElementTree.SubElement(suite, "properties")
        for key, value in (("variant", variant.name), ("variant_hash", run.variant_hash)):
            ElementTree.SubElement(properties, "property", {"name": key, "value": _xml_text(value)})
    suite.extend(_junit_case(run, attempt) for attempt in iter_attempts(run))
    if gate_case is not None:
        suite.append(gate_case)
    suite.extend(variant_cases)
    if problem := run.traceback or run.error or run.stopped_because:
        ElementTree.SubElement(suite, "system-err").text = _xml_text(problem)
    return suite


def _gate_case(result: GateResult) -> ElementTree.Element | None:
    """Return the test case of the gate; None if there was no comparison, and attempts show all that is to be said."""
    run = result.run
    is_compared = result.comparison is not None or bool(result.not_compared)
    if not is_compared and (not result.fails or run.failed + run.errors + run.incomplete):
        return None
    facts = {
        "classname": _xml_text(f"{run.app_name}.{run.evalset.evalset_id}"),
        "name": GATE_CASE if is_compared else GATE_CASE_ALONE,
        "time": "0.000",
    }
    case = ElementTree.Element("testcase", facts)
    kinds = {
        GateStatus.COULD_NOT_RUN: "error",
        GateStatus.STOPPED: "error",
        GateStatus.FAILED: "failure",
        GateStatus.NOT_COMPARED: "error",
    }
    if kind := kinds.get(result.status):
        attributes = {"type": str(result.status), "message": _xml_text(result.title)}
        ElementTree.SubElement(case, kind, attributes).text = _xml_text("\n".join(result.reasons))
    else:
        ElementTree.SubElement(case, "system-out").text = _xml_text(result.title)
    return case


def _variant_case(matrix: VariantMatrix, column: VariantColumn) -> ElementTree.Element:
    """Return the test case of a variant, which says how it compares with the original."""
    run = matrix.original
    facts = {
        "classname": _xml_text(f"{run.app_name}.{run.evalset.evalset_id}"),
        "name": _xml_text(f"variant {column.variant.name}"),
        "time": "0.000",
    }
    case = ElementTree.Element("testcase", facts)
    ElementTree.SubElement(case, "system-out").text = _xml_text(
        f"{column.counts}; pass rate {column.rate}, original {format_percent(matrix.rate.value)}"
        f" (hash {column.run.variant_hash}, run {column.run.pk})"
    )
    return case


def _junit_case(run: EvalRun, attempt: EvalAttempt) -> ElementTree.Element:
    name = attempt.case_id if run.num_runs == 1 else f"{attempt.case_id} #{attempt.repetition}"
    case = ElementTree.Element(
        "testcase",
        {
            "classname": _xml_text(f"{run.app_name}.{run.evalset.evalset_id}"),
            "name": _xml_text(name),
            "time": _format_seconds(attempt.seconds or 0.0),
        },
    )
    if attempt.status == Status.FAILED:
        reasons = "; ".join(_failure_reasons(attempt))
        attributes = {"type": _xml_text(attempt.cause), "message": _xml_text(reasons)}
        ElementTree.SubElement(case, "failure", attributes).text = _xml_text(reasons)
    elif attempt.status == Status.ERROR:
        facts = {"type": _xml_text(attempt.error_type), "message": _xml_text(attempt.error)}
        ElementTree.SubElement(case, "error", facts).text = _xml_text(attempt.traceback)
    elif attempt.status == Status.INCOMPLETE:
        reasons = "; ".join(_failure_reasons(attempt))
        ElementTree.SubElement(case, "error", {"type": "incomplete", "message": _xml_text(reasons)})
    elif attempt.status == Status.PASSED:
        if notes := [result.reason for result in sorted_results(attempt) if is_number_note(result.reason)]:
            ElementTree.SubElement(case, "system-out").text = _xml_text("\n".join(notes))
    else:
        message = ": ".join(filter(None, (str(attempt.status), attempt.stopped_because)))
        ElementTree.SubElement(case, "skipped", {"message": _xml_text(message)})
    return case


def _failure_reasons(attempt: EvalAttempt) -> Iterator[str]:
    return (
        describe_score(result)
        for result in sorted_results(attempt)
        if result.invocation is None and _is_bad(result)
    )


def _is_bad(result: MetricResult) -> bool:
    return result.status in {MetricResult.Status.FAILED, MetricResult.Status.NOT_EVALUATED}


def _format_seconds(value: float) -> str:
    return f"{max(value, 0.0):.3f}"


def _xml_text(text: str) -> str:
    """Return a text without the control characters that XML 1.0 cannot hold."""
    return "".join(sign if sign >= " " or sign in "\t\n\r" else "\ufffd" for sign in text).replace(
        "\ufffe", ""
    )
