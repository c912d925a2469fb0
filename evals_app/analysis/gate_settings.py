"""Settings of the gate for a run, and what a run exceeds: cost, tokens, latency, and falls of scores. Read-only.

The latency of an attempt is its duration without waits for unavailable models; attempts without an outcome have none.
Limits of a case hold for the mean of its attempts, which does not grow with the number of repetitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from pydantic import ValidationError

from evals_app.analysis import run_summary
from evals_app.analysis.comparability import read_cases
from evals_app.analysis.comparison import count_cases
from evals_app.analysis.figure_text import format_amount
from evals_app.analysis.latency import measure_latency
from evals_app.analysis.run_differences import read_currency
from evals_app.analysis.score_changes import ScoreChange
from evals_app.analysis.statistics import format_probability, mean_if_known
from evals_app.metrics.catalog import all_metrics
from evals_app.metrics.config import check_name
from evals_app.metrics.gate_config import GATE, GateConfig, option_name
from evals_app.metrics.score_text import format_score
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.attempt_status import HAS_OUTCOME
from sessions_app.file_problems import describe_error
from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import join_names

Settings = TypeVar("Settings", bound=GateConfig)

TOLERANCE = "score_tolerance"
ROUNDING = 1e-9
"""Differences of scores that are only rounding."""

_COLUMNS = (
    *("run_id", "case_index", "total_tokens", "cost"),
    *("started_at", "finished_at", "waited_seconds"),
)
"""Columns of an attempt that the figures of a case need."""


class GateSettings(GateConfig):
    """Settings of the gate for a run."""

    @classmethod
    def read(cls, config: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> Self:
        """Return the settings of a run's configuration, overridden by those of the command line.

        Args:
            config: the configuration with the settings under `devui_gate`.
            options: settings by name, as `read_options` returns them.

        Raises:
            BadInput: a setting is invalid, or a tolerance is for an unknown metric.
        """
        configured, options = config.get(GATE) or {}, options or {}
        tolerance = {**configured.get(TOLERANCE, {}), **options.get(TOLERANCE, {})}
        for name in tolerance:
            check_name(
                name, {*all_metrics(), *(config.get("custom_metrics") or {})}, f"{option_name(TOLERANCE)}: "
            )
        return _validate_settings(cls, {**configured, **options, TOLERANCE: tolerance})


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that options of the command line give, by name.

    Raises:
        BadInput: one is no number or out of range.
    """
    texts = {name: options[name] for name in GateConfig.model_fields if options.get(name) is not None}
    settings: dict[str, Any] = {
        name: _parse_number(text) for name, text in texts.items() if name != TOLERANCE
    }
    if TOLERANCE in texts:
        settings[TOLERANCE] = dict(map(_parse_tolerance, texts[TOLERANCE]))
    _validate_settings(GateConfig, settings)
    return settings


def _parse_tolerance(text: str) -> tuple[str, Any]:
    name, equals, number = text.partition("=")
    if not equals or not name.strip():
        raise BadInput(
            f"{option_name(TOLERANCE)} {text!r} is not NAME=NUMBER.",
            hint="For example response_match_score=0.02.",
        )
    return name.strip(), _parse_number(number)


def _parse_number(text: str) -> float | str:
    """Return the number that a text gives; the text if it is none, which is refused with its setting."""
    try:
        return float(text)
    except ValueError:
        return text


def _validate_settings(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        fault = error.errors()[0]
        name, *metric = fault["loc"]
        raise BadInput(
            f"{' '.join([option_name(str(name)), *map(str, metric)])} {describe_error(fault)}.",
            hint="Give another number, or leave it out.",
        ) from error


def describe_score_falls(scores: Sequence[ScoreChange], settings: GateSettings) -> list[str]:
    """Return a sentence for each metric whose scores provably fell by more than its tolerance."""
    return [
        f"{change.metric} fell from {format_score(change.before, change.after)}"
        f" to {format_score(change.after, change.before)}"
        f" over {count_cases(change.cases)} ({format_probability(change.probability)}),"
        f" more than the tolerance of {tolerance:g}."
        for change in scores
        if change.is_worse
        and -change.difference > (tolerance := settings.score_tolerance.get(change.metric, 0.0)) + ROUNDING
    ]


def describe_exceeded_limits(run: EvalRun, settings: GateSettings) -> list[str]:
    """Return a sentence for each limit of cost, tokens or latency that a run exceeds or that cannot be checked."""
    if not settings.has_limits:
        return []
    return [*_run_excesses(run, settings), *_case_excesses(run, settings)]


def _run_excesses(run: EvalRun, settings: GateSettings) -> Iterator[str]:
    usage, latency = run_summary.model_usage(run), measure_latency(run)
    cost = 0.0 if usage.cost is None and not usage.unpriced else usage.cost
    if cost is None and settings.max_cost is not None:
        yield f"The cost of the run is unknown: {_explain_unpriced(usage.unpriced)} (--max-cost)."
    figures = (
        ("max_cost", "cost of the run", cost),
        ("max_tokens", "number of tokens of the run", float(usage.tokens)),
        ("max_latency_p50", "median latency of an attempt", latency.p50 if latency else None),
        ("max_latency_p95", "95th percentile of the latency of an attempt", latency.p95 if latency else None),
    )
    for name, subject, value in figures:
        limit = getattr(settings, name)
        if limit is not None and value is not None and value > limit:
            amount = format_amount(name, value, usage.currency, other=limit)
            maximum = format_amount(name, limit, usage.currency, other=value)
            yield f"The {subject} is {amount}, more than {maximum} ({option_name(name)})."


def _explain_unpriced(attempts: int) -> str:
    return f"{attempts} attempt{'s' * (attempts != 1)} used a model without a price"


def _case_excesses(run: EvalRun, settings: GateSettings) -> Iterator[str]:
    """Yield a sentence for each limit that the mean of some cases exceeds, or that cannot be checked for some."""
    keys = [case.key.label for case in read_cases(run.version)]
    attempts_by_case: dict[str, list[EvalAttempt]] = defaultdict(list)
    for attempt in run.attempts.filter(HAS_OUTCOME).order_by("case_index", "repetition").only(*_COLUMNS):
        attempts_by_case[keys[attempt.case_index]].append(attempt)
    currency = read_currency(run)
    for name, (subject, read_value) in CASE_FIGURES.items():
        limit = getattr(settings, name)
        if limit is None:
            continue
        means = {
            case: mean_if_known(map(read_value, attempts)) for case, attempts in attempts_by_case.items()
        }
        if unknown := [case for case, mean in means.items() if mean is None]:
            yield f"The {subject} of {join_names(unknown)} is unknown ({option_name(name)})."
        excesses = {case: mean for case, mean in means.items() if mean is not None and mean > limit}
        worst = sorted(excesses, key=lambda case: -excesses[case])
        if worst:
            amounts = [
                f"{case} {format_amount(name, excesses[case], currency, other=limit)}" for case in worst
            ]
            maximum = format_amount(name, limit, currency, other=excesses[worst[-1]])
            yield (
                f"The mean {subject} of {count_cases(len(worst))} is more than"
                f" {maximum} ({option_name(name)}): {join_names(amounts)}."
            )


def _attempt_cost(attempt: EvalAttempt) -> float | None:
    """Return the cost of an attempt; 0 if it used no model, None if it is unknown."""
    return attempt.cost if attempt.total_tokens else 0.0


CASE_FIGURES: Mapping[str, tuple[str, Callable[[EvalAttempt], float | None]]] = {
    "max_case_cost": ("cost", _attempt_cost),
    "max_case_tokens": ("number of tokens", lambda attempt: attempt.total_tokens),
    "max_case_latency": ("latency", lambda attempt: attempt.active_seconds),
}
"""Limit of a case's mean → what it limits."""
