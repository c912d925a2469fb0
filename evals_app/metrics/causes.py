"""Causes of attempts that did not pass, as short texts that are equal for attempts with the same cause. Pure.

The first of these: an error; the first unexpected tool call; the cause that one of DevUI's own metrics names; the first
metric that failed, or gave no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from evals_app.metrics import invocations
from evals_app.metrics.alignment import CallPair, Fit, MatchRules, align
from evals_app.metrics.catalog import TRAJECTORY, own_metrics
from evals_app.metrics.metric import metric_label
from evals_app.models import EvalAttempt, MetricResult
from sessions_app.store.short_texts import truncate

MAX_LENGTH = 160
NAMES_SHOWN = 3
_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b|\d{4,}")
"""Addresses, ids and long numbers, which differ between attempts of one cause."""

Json = Mapping[str, Any]
Status = EvalAttempt.Status


@dataclass(frozen=True)
class MetricSummary:
    """Result of a metric for a whole attempt."""

    metric: str
    status: str
    reason: str = ""
    details: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Expectation:
    """Expected turns of an attempt, and the criterion of each metric."""

    turns: Sequence[Json] = ()
    criteria: Json = field(default_factory=dict)


def explain_outcome(
    status: str,
    expected: Expectation,
    actual: Sequence[Json],
    summaries: Iterable[MetricSummary],
    error: tuple[str, str] = ("", ""),
) -> str:
    """Return the cause; "" for an attempt that passed, was cancelled or has not ended.

    `summaries` have the run's order; `error` is the type and message of what the agent raised.
    """
    if status == Status.ERROR:
        return _cut_text(_CHANGING.sub("…", f"{error[0]}: {_first_line(error[1])}".strip(": ")))
    overall = list(summaries)
    if status == Status.FAILED:
        failed = [summary for summary in overall if summary.status == MetricResult.Status.FAILED]
        return _cut_text(_why_failed(failed, expected, actual))
    if status == Status.INCOMPLETE:
        return _cut_text(_why_incomplete(overall))
    return ""


def _why_failed(failed: Sequence[MetricSummary], expected: Expectation, actual: Sequence[Json]) -> str:
    by_metric = {summary.metric: summary for summary in failed}
    if TRAJECTORY in by_metric and (
        pair := first_divergence(expected, actual, by_metric[TRAJECTORY].details)
    ):
        return describe_divergence(pair)
    own_metrics_by_name = own_metrics()
    causes = (
        own_metrics_by_name[name].describe_cause(result.details)
        for name, result in by_metric.items()
        if name in own_metrics_by_name
    )
    if cause := next(filter(None, causes), ""):
        return cause
    return f"{metric_label(failed[0].metric)}: below its threshold" if failed else "no metric passed"


def _why_incomplete(overall: Sequence[MetricSummary]) -> str:
    unrun = [summary for summary in overall if summary.status == MetricResult.Status.NOT_EVALUATED]
    if not unrun:
        return "nothing judged it"
    reason = _CHANGING.sub("…", _first_line(unrun[0].reason))
    return f"{metric_label(unrun[0].metric)} gave no verdict: {reason}".rstrip(": ")


def first_divergence(expected: Expectation, actual: Sequence[Json], details: Json) -> CallPair | None:
    """Return the first tool call of an attempt that the metric's rules do not allow.

    `details` are those of the metric's overall score.
    """
    rules = MatchRules.of(expected.criteria.get(TRAJECTORY))
    for turn, (expected_turn, actual_turn) in enumerate(zip_longest(expected.turns, actual)):
        nested = invocations.read_turn_nested_calls(details, turn)
        calls = align(
            invocations.tool_calls(expected_turn or {}),
            invocations.tool_calls(actual_turn or {}, nested),
            rules,
        )
        if wrong_pair := next((pair for pair in calls if pair.wrong), None):
            return wrong_pair
    return None


def describe_divergence(pair: CallPair) -> str:
    """Describe how a tool call diverges, without its values: `get_weather: other city`."""
    if pair.fit == Fit.MISSING:
        return f"{pair.name}: not called"
    if pair.fit == Fit.EXTRA:
        return f"{pair.name}: not expected"
    differing = [argument.name for argument in pair.arguments if not argument.same]
    more = " …" if len(differing) > NAMES_SHOWN else ""
    return f"{pair.name}: other {', '.join(differing[:NAMES_SHOWN])}{more}"


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "").strip()


def _cut_text(text: str) -> str:
    return truncate(text, MAX_LENGTH)
