"""Scores, amounts and slices of a judged run as text, for the terminal and for Markdown. Read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evals_app.analysis import run_summary
from evals_app.analysis.comparison import Comparison, count_cases
from evals_app.analysis.score_changes import ScoreChange
from evals_app.analysis.slices import Slice
from evals_app.analysis.statistics import format_percent, format_probability
from evals_app.metrics.score_text import format_apart, format_score
from evals_app.models import EvalRun


def describe_scores(run: EvalRun, comparison: Comparison | None) -> Mapping[str, str]:
    """Return a text for each metric of a run that has scores: its mean before and after, or only its mean now."""
    changes = {change.metric: change for change in comparison.scores} if comparison else {}
    means = {column.name: mean for column, mean in run_summary.summary(run).means if mean is not None}
    return {
        name: _describe_change(changes[name]) if name in changes else f"mean {format_score(mean)}"
        for name, mean in means.items()
    }


def _describe_change(change: ScoreChange) -> str:
    verdict = "worse" if change.is_worse else "better" if change.is_better else "no significant change"
    return (
        f"{format_score(change.before, change.after)} → {format_score(change.after, change.before)}, {verdict}"
        f" (mean of {count_cases(change.cases)}, {format_probability(change.probability)})"
    )


def describe_amounts(run: EvalRun, currency: str) -> str:
    """Return cost, tokens, duration and latency of a run in one line. `currency` is the name to show."""
    return ", ".join(_list_amounts(run_summary.summary(run), currency))


def _list_amounts(summary: run_summary.Summary, currency: str) -> Iterator[str]:
    usage = summary.usage
    yield "cost unknown" if usage.cost is None else format_amount("cost", usage.cost, currency)
    yield format_amount("tokens", usage.tokens, currency)
    yield "seconds unknown" if summary.seconds is None else f"{summary.seconds:,.1f} s"
    if summary.latency:
        yield f"latency of an attempt p50 {summary.latency.p50:,.2f} s"
        yield f"p95 {summary.latency.p95:,.2f} s"


def format_amount(name: str, value: float, currency: str, other: float | None = None) -> str:
    """Return an amount with its unit. `name` ends with `cost` or `tokens`; any other amount is in seconds.

    Args:
        other: the amount that it is compared with: there are enough digits to tell both apart.
    """
    if name.endswith("tokens"):
        return f"{format_apart(value, other, lambda number, digits: f'{number:,.{digits}f}', 0)} tokens"
    text = format_apart(value, other, lambda number, digits: f"{number:,.{digits}g}", 4)
    return f"{text} {currency if name.endswith('cost') else 's'}"


def describe_slice(tagged: Slice) -> str:
    """Return how many cases a slice has, which share of them passes, and which share did earlier."""
    text = f"{count_cases(tagged.cases)}, {_describe_rate(tagged)}"
    if tagged.before is None or tagged.after is None:
        return text
    if not tagged.has_earlier:
        return f"{text}; no earlier outcomes"
    before, after = format_percent(tagged.before.value), format_percent(tagged.after.value)
    if tagged.before.total == tagged.rate.total:
        return f"{text}; {before} earlier"
    return f"{text}; {before} → {after} over {count_cases(tagged.before.total)} with earlier outcomes"


def _describe_rate(tagged: Slice) -> str:
    rate, missing = tagged.rate, tagged.cases - tagged.rate.total
    if not rate.total:
        return "none with an outcome"
    low, high = format_percent(rate.interval.low), format_percent(rate.interval.high)
    text = f"{format_percent(rate.value)} passed ({low} to {high})"
    return f"{text}, {missing} without an outcome" if missing else text
