"""Configuration of a run: ADK's `EvalConfig` (`test_config.json`), read, filtered and checked before a run.

`google/adk/evaluation/eval_config.py`; a test compares the model with ADK's. A configuration is stored as the JSON
object that ADK reads, so a run can be repeated with `adk eval`, too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError
from pydantic.alias_generators import to_camel

from evals_app.files.parsing import load_document, read_text
from evals_app.files.schema import Strict
from evals_app.metrics.catalog import (
    ADK_METRICS,
    INFORMATIONAL_METRICS,
    all_metrics,
    own_metrics,
    suggest_name,
)
from evals_app.metrics.criterion_options import check_criterion, other_fields, parse_text, with_value
from evals_app.metrics.gate_config import GATE, GateConfig
from evals_app.metrics.metric import Metric, MetricKind
from evals_app.metrics.own import OwnMetric
from sessions_app.file_problems import BadFile
from sessions_app.store.errors import BadInput

Json = dict[str, Any]

CONFIG_NAME = "test_config.json"
DEFAULT_CRITERIA = {
    name: metric.default for name, metric in ADK_METRICS.items() if metric.default is not None
}
LOW_HALLUCINATIONS = 0.5


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, defer_build=True)


class Criterion(_Camel):
    """Criterion of a metric. Each metric reads further fields of its own."""

    model_config = ConfigDict(extra="allow")

    threshold: float
    include_intermediate_responses_in_final: bool = False


class CodeConfig(BaseModel):
    """A Python function, by its dotted name."""

    model_config = ConfigDict(extra="forbid")

    name: str


class ValueRange(Strict):
    """The range of a metric's scores."""

    min_value: float
    open_at_min: bool = False
    max_value: float
    open_at_max: bool = False


class MetricValueInfo(Strict):
    """Value range of a metric."""

    interval: ValueRange | None = None


class MetricInfo(Strict):
    """Description of a custom metric."""

    metric_name: str
    description: str | None = None
    metric_value_info: MetricValueInfo
    requires_threshold: bool = True


class CustomMetric(_Camel):
    """A custom metric."""

    code_config: CodeConfig
    metric_info: MetricInfo | None = None
    description: str = ""


class UserSimulator(_Camel):
    """Settings of the simulated user in scenarios. Fields of the audio type are checked by ADK."""

    model_config = ConfigDict(extra="allow")

    type: Literal["llm_backed", "llm_audio"] | None = None
    model: str = "gemini-2.5-flash"
    model_configuration: Json = Field(default_factory=dict)
    max_allowed_invocations: int = 20
    custom_instructions: str | None = None
    include_function_calls: bool = False


class LiveModel(_Camel):
    """Bidirectional streaming."""

    timeout_seconds: int = 300


class EvalConfig(_Camel):
    """A configuration file."""

    model_config = ConfigDict(extra="allow")

    criteria: dict[str, float | SerializeAsAny[Criterion]] = Field(default_factory=dict)
    custom_metrics: dict[str, CustomMetric] | None = None
    user_simulator_config: UserSimulator | None = None
    live_model_config: LiveModel | None = None
    devui_gate: GateConfig | None = None


@dataclass(frozen=True)
class RunConfig:
    """A configuration and its source (a path as displayed, or a description)."""

    data: Json
    source: str
    warnings: list[str] = field(default_factory=list)

    @property
    def criteria(self) -> dict[str, float | Json]:
        """Metric → threshold, or criterion with its `threshold`."""
        return dict(self.data.get("criteria") or {})


def default_config() -> RunConfig:
    """Return ADK's default: tool trajectory 1.0, response match 0.8."""
    return RunConfig({"criteria": dict(DEFAULT_CRITERIA)}, "ADK's defaults")


def config_beside(evalset_file: Path, shown_as: str = "") -> RunConfig:
    """Return the `test_config.json` beside an evalset file, else the default.

    Raises:
        BadFile: the file is invalid.
    """
    path = evalset_file.parent / CONFIG_NAME
    if not os.path.lexists(path):
        return default_config()
    return read_config_file(path, str(Path(shown_as).parent / CONFIG_NAME) if shown_as else str(path))


def read_config_file(path: Path, shown_as: str = "") -> RunConfig:
    """Read a configuration file.

    Raises:
        NotFound: no such file.
        BadFile: the file is invalid; all problems are named with file, line and field.
    """
    name = shown_as or str(path)
    return parse_config(read_text(path, name), path.name, name)


def parse_config(text: str, file_name: str, shown_as: str) -> RunConfig:
    """Parse a configuration.

    Raises:
        BadFile: the text is invalid; all problems are named with file, line and field.
    """
    loaded = load_document(text, file_name, shown_as)
    try:
        model = EvalConfig.model_validate_json(loaded.as_json)
    except ValidationError as error:
        raise BadFile(loaded.problems(error)) from error
    warnings = [
        *(f"{shown_as}: ADK does not use the field {extra!r}." for extra in model.model_extra or {}),
        *(f"{shown_as}: {warning}" for warning in loaded.warnings),
    ]
    return RunConfig(model.model_dump(mode="json", exclude_unset=True, by_alias=False), shown_as, warnings)


def choose_metrics(
    config: RunConfig,
    metrics: Sequence[str] | None = None,
    settings: Mapping[str, float | str] | None = None,
) -> RunConfig:
    """Return the configuration with only these metrics (None: unchanged) and with these thresholds and options.

    A metric keeps its criterion; one that the configuration lacks gets its default threshold.

    Args:
        settings: metric → threshold, `metric.option` → value.

    Raises:
        BadInput: a metric or option is unknown, a metric has neither a threshold nor a default, or a value is invalid.
    """
    by_metric: dict[str, dict[str, float | str]] = {}
    for setting, value in (settings or {}).items():
        name, _, option = setting.partition(".")
        by_metric.setdefault(name, {})[option] = value
    old = config.criteria
    names = list(metrics) if metrics is not None else list(dict.fromkeys([*old, *by_metric]))
    names_in_use = {*all_metrics(), *(config.data.get("custom_metrics") or {})}
    for name in [*names, *by_metric]:
        check_name(name, names_in_use)
    unused = [name for name in by_metric if name not in names]
    if unused:
        raise BadInput(
            f"A threshold or option is given for {unused[0]}, which is not among the metrics.",
            hint="Add it to the metrics, or leave the threshold or option out.",
        )
    gating = [name for name in names if name not in INFORMATIONAL_METRICS]
    criteria = {name: _updated_criterion(name, old.get(name), by_metric.get(name, {})) for name in gating}
    is_same = criteria == {
        name: criterion for name, criterion in old.items() if name not in INFORMATIONAL_METRICS
    }
    source = config.source if is_same else f"{config.source}, changed"
    return RunConfig({**config.data, "criteria": criteria}, source, config.warnings)


def add_automatic_metrics(config: RunConfig, cases: Collection[Mapping[str, Any]]) -> RunConfig:
    """Add DevUI's own metrics that judge some of the cases (JSON) without being chosen."""
    automatic = {
        metric.name: metric.default
        for metric in automatic_metrics(cases)
        if metric.name not in {**config.criteria, **(config.data.get("custom_metrics") or {})}
    }
    if not automatic:
        return config
    data = {**config.data, "criteria": {**config.criteria, **automatic}}
    return RunConfig(data, config.source, config.warnings)


def automatic_metrics(cases: Collection[Mapping[str, Any]]) -> list[OwnMetric]:
    """Return the metrics of DevUI and of installed packages that judge some of the cases without being chosen."""
    return [
        metric
        for metric in own_metrics().values()
        if metric.default is not None and any(metric.is_automatic_for(case) for case in cases)
    ]


def check_name(name: str, names: Collection[str], prefix: str = "") -> None:
    """Require a known metric. `prefix` begins the message: where the metric is named.

    Raises:
        BadInput: the metric is unknown; a similar name is suggested.
    """
    if name in names:
        return
    suggestion = suggest_name(name, names)
    hint = f"Did you mean {suggestion}?" if suggestion else f"Metrics: {', '.join(sorted(names))}."
    raise BadInput(f"{prefix}There is no metric {name!r}.", hint=hint)


def check_config(config: RunConfig) -> list[str]:
    """Check a configuration; return its warnings.

    Raises:
        BadInput: a metric is unknown, its threshold is out of range or not allowed, or its criterion is invalid.
    """
    custom = config.data.get("custom_metrics") or {}
    metrics = {**all_metrics(), **{name: custom_metric(name, declared) for name, declared in custom.items()}}
    warnings = list(config.warnings)
    for name, criterion in config.criteria.items():
        check_name(name, metrics.keys())
        metric = metrics[name]
        check_criterion(name, metric.options, criterion, config.source)
        if isinstance(metric, OwnMetric) and (unknown := other_fields(metric.options, criterion)):
            raise _unknown_option(name, unknown[0], [option.name for option in metric.options], config.source)
        warnings.extend(_check_threshold(metric, criterion_threshold(criterion), config.source))
    for name in (config.data.get(GATE) or {}).get("score_tolerance", {}):
        check_name(name, metrics.keys(), f"{config.source}, {GATE}.score_tolerance: ")
    if not config.criteria:
        warnings.append(f"{config.source}: no metric with a verdict is chosen, so no case can pass.")
    return warnings


def criterion_threshold(criterion: float | Mapping[str, Any]) -> float:
    """Return the threshold of a criterion in either form."""
    return float(criterion["threshold"] if isinstance(criterion, Mapping) else criterion)


def read_thresholds(config: Mapping[str, Any]) -> dict[str, float]:
    """Return the thresholds of a configuration by metric."""
    return {
        name: criterion_threshold(criterion) for name, criterion in (config.get("criteria") or {}).items()
    }


def custom_metric(name: str, declared: Mapping[str, Any]) -> Metric:
    """Return a custom metric of a configuration (range 0–1 by default, as in ADK)."""
    info = declared.get("metric_info") or {}
    says = info.get("description") or declared.get("description") or declared["code_config"]["name"]
    if not info:
        return Metric(name, MetricKind.CUSTOM, says)
    interval = (info.get("metric_value_info") or {}).get("interval") or {}
    return Metric(
        name, MetricKind.CUSTOM, says, low=interval.get("min_value"), high=interval.get("max_value")
    )


def _check_threshold(metric: Metric, threshold: float, source: str) -> Iterator[str]:
    if metric.kind is MetricKind.INFORMATIONAL:
        raise BadInput(
            f"{source}: {metric.name} takes no threshold: it is reported with every run and never judged.",
            hint="Leave it out of the criteria.",
        )
    if math.isnan(threshold):
        raise BadInput(f"{source}: the threshold of {metric.name} is no number.", hint="Give a number.")
    if metric.low is None or metric.high is None:
        return
    if not metric.low <= threshold <= metric.high:
        raise BadInput(
            f"{source}: the threshold {threshold:g} of {metric.name} is outside its range"
            f" {metric.low:g} to {metric.high:g}.",
            hint="Higher is better in every metric: the threshold is the lowest score that passes.",
        )
    if metric.name == "hallucinations_v1" and threshold < LOW_HALLUCINATIONS:
        yield (
            f"{source}: hallucinations_v1 passes at {threshold:g} or above, because its score is the share of"
            " supported sentences; a low threshold lets nearly everything pass."
        )


def _updated_criterion(
    name: str, old: float | Json | None, settings: Mapping[str, float | str]
) -> float | Mapping[str, Any]:
    """Return a criterion with new settings: option → value; an empty option is the threshold."""
    metric = all_metrics().get(name)
    criterion: float | Mapping[str, Any] | None = metric.default if old is None and metric else old
    if "" in settings:
        threshold = _parse_threshold(name, settings[""])
        criterion = {**criterion, "threshold": threshold} if isinstance(criterion, Mapping) else threshold
    if criterion is None:
        raise BadInput(
            f"{name} has no default threshold.", hint=f"Give one, for example --criteria {name}=0.5."
        )
    options = {option.name: option for option in metric.options} if metric else {}
    for setting, value in settings.items():
        if setting and setting not in options:
            raise _unknown_option(name, setting, options)
        if setting:
            criterion = with_value(criterion, options[setting], parse_text(options[setting], str(value)))
    return criterion


def _unknown_option(name: str, option: str, options: Collection[str], source: str = "") -> BadInput:
    hint = f"Options: {', '.join(options)}." if options else "It has only a threshold."
    return BadInput(f"{source}: {name} has no option {option!r}.".removeprefix(": "), hint=hint)


def _parse_threshold(name: str, value: float | str) -> float:
    try:
        return float(value)
    except ValueError:
        raise BadInput(
            f"The threshold of {name} is no number: {value!r}.", hint="Give one, such as 0.7."
        ) from None
