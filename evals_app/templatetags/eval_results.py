"""Template filters for results of runs: `{% load eval_results %}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from django import template

from evals_app.analysis.case_verdicts import CaseChange, Verdict
from evals_app.analysis.fixture_use import name_answering_fixture
from evals_app.analysis.outcomes import Outcomes
from evals_app.analysis.statistics import format_percent, format_probability
from evals_app.cli.terminal_text import shorten
from evals_app.models import EvalRun

register = template.Library()

register.filter("percent", format_percent)
register.filter("answering_fixture", name_answering_fixture)

PIPS = 10
"""Maximum number of repetitions that are shown as marks; of more the count is shown."""

MAX_ID_LENGTH = 200
"""Maximum length of a case's id in a list; the page of the case shows it in full."""

VERDICTS = {
    Verdict.REGRESSED: ("danger", "down"),
    Verdict.FLAKY: ("warn", "rewind"),
    Verdict.UNCLEAR: ("warn", "info"),
    Verdict.NOT_COMPARABLE: ("", "skip"),
    Verdict.FIXED: ("ok", "up"),
    Verdict.NEW: ("info", "add"),
    Verdict.GONE: ("", "delete"),
    Verdict.UNCHANGED: ("", "dot"),
}
"""Verdict -> (badge colour, icon)."""


@register.filter
def brief(case_id: str) -> str:
    """`{{ row.id|brief|name }}`: an id as lists show it; of an endless one a part before its end is left out."""
    return shorten(case_id, MAX_ID_LENGTH)


@register.filter
def at_doublings(reliable: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """`{% for k, chance in tally.reliable|at_doublings %}`: for k of 1, 2, 4, 8 … and the last one."""
    return [(k, chance) for k, chance in reliable if k.bit_count() == 1 or k == reliable[-1][0]]


@register.filter
def points(value: float | None) -> str:
    """`{{ -0.125|points }}`: −12.5 points, a difference of rates."""
    if value is None:
        return "–"
    rounded = round(100 * value, 1)
    return f"{rounded:+.1f} points".replace("-", "−") if rounded else "±0 points"


@register.filter
def along(value: float | None, length: float = 100) -> str:
    """`<rect x="{{ 0.25|along:200 }}">`: a share of a length, for attributes of SVG."""
    return f"{(value or 0.0) * length:.2f}".rstrip("0").rstrip(".")


@register.filter
def minus(value: float, other: float) -> float:
    """`{{ high|minus:low }}`."""
    return value - other


@register.filter
def case_change(changes: Mapping[int, CaseChange], index: int) -> CaseChange | None:
    """`{% with change=changes|case_change:row.index %}`: what became of a case since the baseline."""
    return changes.get(index) if changes else None


@register.filter
def add_one(value: float) -> float:
    """`{{ difference|add_one|along }}`: −1 … 1 on a line of 0 … 2."""
    return value + 1


@register.filter
def pips(side: Outcomes) -> list[str]:
    """`{% for pip in side|pips %}`: a mark for each repetition, at most `PIPS`."""
    marks = ["passed"] * side.passed + ["failed"] * side.failed + ["incomplete"] * side.unjudged
    return marks if len(marks) <= PIPS else []


@register.filter
def when(epoch: float) -> str:
    """`{{ run.created_at|when }}`: a time as text, in UTC, where no element can stand."""
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%d %H:%M} UTC"


@register.filter
def change(ratio: float | None) -> str:
    """`{{ amount.ratio|change }}`: +12 %."""
    if ratio is None:
        return ""
    percents = round(100 * (ratio - 1))
    return f"{percents:+d} %".replace("-", "−") if percents else "the same"


@register.filter
def chance(value: float | None) -> str:
    """`{{ probability|chance }}`: p = 0.031; nothing for none."""
    return "" if value is None else format_probability(value)


@register.filter
def verdict_colour(verdict: Verdict) -> str:
    """`{{ case.verdict|verdict_colour }}`: the class of its badge."""
    colour = VERDICTS[verdict][0]
    return f"badge badge-{colour}" if colour else "badge"


@register.filter
def verdict_icon(verdict: Verdict) -> str:
    """`{% icon case.verdict|verdict_icon %}`."""
    return VERDICTS[verdict][1]


@register.filter
def short_revision(run: EvalRun) -> str:
    """`{{ run|short_revision }}`: what names the code that ran, short."""
    return (run.git_revision or run.code_version)[:7] or "unknown"
