"""The run form: its fields for an evalset, and the order from a submitted form or from the API."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from django.http import QueryDict

from evals_app.files import library
from evals_app.metrics import config as configs
from evals_app.metrics import criterion_options as criteria
from evals_app.metrics.catalog import ADK_METRICS, all_metrics, missing_requirement
from evals_app.metrics.config import RunConfig
from evals_app.metrics.criterion_options import Criterion, Option, Widget
from evals_app.metrics.metric import Metric, MetricKind
from evals_app.metrics.own import OwnMetric
from evals_app.models import EvalRun, EvalSet, KnownMetric
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.replay.policy import LIVE, MODEL_CHOICES, TOOL_CHOICES, ReplayPolicy
from evals_app.runs.run_orders import DEFAULT_PARALLELISM, RunOrder
from sessions_app.agents.folder import configured_folder
from sessions_app.store.errors import BadInput

Json = Mapping[str, Any]


@dataclass(frozen=True)
class OptionField:
    """An option of a metric's criterion as a form field."""

    option: Option
    field: str
    value: Any

    @property
    def widget(self) -> str:
        """The widget of the field."""
        return str(self.option.widget)


@dataclass(frozen=True)
class MetricField:
    """One metric of the form. `missing`: why it cannot run; `rest`: its criterion's fields without a form field.

    `configured` is the threshold of the configuration where the last run had another one; None: the same.
    """

    metric: Metric
    is_chosen: bool
    threshold: float | None
    missing: str = ""
    rest: str = ""
    options: tuple[OptionField, ...] = ()
    always: bool = False
    configured: float | None = None

    @property
    def open(self) -> bool:
        """Tell whether the options are shown unfolded: one of them was changed."""
        return any(field.value not in (field.option.default, "", None) for field in self.options)

    @property
    def is_small(self) -> bool:
        """Tell whether the options fit without folding."""
        return len(self.options) <= 2


@dataclass(frozen=True)
class RunForm:
    """The fields of the form. `runs`: runs whose recordings can be replayed."""

    offers: list[MetricField]
    simulator: list[OptionField] = field(default_factory=list)
    policy: ReplayPolicy = ReplayPolicy()
    runs: Sequence[EvalRun] = ()
    num_runs: int = 1
    parallelism: int = DEFAULT_PARALLELISM
    judge_model: str = ""
    judge_samples: str = ""
    cases: frozenset[str] = field(default_factory=frozenset)
    limits: Mapping[str, Any] = field(default_factory=lambda: EvalRunLimits().as_json())
    has_last_run: bool = False
    models: ClassVar = MODEL_CHOICES
    tools: ClassVar = TOOL_CHOICES

    @property
    def chosen_metrics(self) -> list[MetricField]:
        """Metrics that are chosen initially, and those that are computed without a model."""
        cheap = (MetricKind.EXACT, MetricKind.CUSTOM, MetricKind.OWN)
        return [offer for offer in self.offers if offer.is_chosen or offer.metric.kind in cheap]

    @property
    def others(self) -> list[MetricField]:
        """The other metrics that can run."""
        return [offer for offer in self.offers if offer not in self.chosen_metrics and not offer.missing]

    @property
    def missing(self) -> list[MetricField]:
        """The metrics that cannot run."""
        return [offer for offer in self.offers if offer not in self.chosen_metrics and offer.missing]

    @property
    def judges(self) -> bool:
        """Tell whether a judge model is used."""
        return any(offer.is_chosen and offer.metric.uses_judge for offer in self.offers)

    @property
    def is_remembered(self) -> bool:
        """Tell whether the last run had other repetitions or thresholds than the configuration."""
        return self.has_last_run and (self.num_runs > 1 or any(offer.configured for offer in self.offers))


def build_form(
    config: RunConfig,
    posted: QueryDict | None = None,
    *,
    cases: Sequence[Json] = (),
    runs: Sequence[EvalRun] = (),
    last_run: EvalRun | None = None,
) -> RunForm:
    """Return the form for a configuration; after an error, with the submitted values.

    Args:
        cases: the evalset's cases as JSON.
        runs: earlier runs of the evalset, the newest first.
        last_run: the run whose repetitions and thresholds are suggested.
    """
    missing = _unavailable_metrics()
    remembered = _read_thresholds(last_run)
    offers = [
        _metric_field(metric, config, posted, missing.get(metric.name, ""), always, remembered)
        for metric, always in _offered_metrics(config, cases)
    ]
    offers.sort(key=lambda offer: (offer.always, not offer.is_chosen))
    form = RunForm(
        offers,
        _simulator_fields(config, posted, cases),
        runs=runs,
        num_runs=last_run.num_runs if last_run else 1,
        has_last_run=last_run is not None,
    )
    return form if posted is None else _fill_form(form, posted)


def _simulator_fields(
    config: RunConfig, posted: QueryDict | None, cases: Sequence[Json]
) -> list[OptionField]:
    """Return the fields of the simulated user; none if no case and no setting needs one."""
    settings = config.data.get(criteria.SIMULATOR)
    if not settings and not any(case.get("conversation_scenario") for case in cases):
        return []
    return [
        _option_field(criteria.SIMULATOR, option, settings, posted) for option in criteria.SIMULATOR_OPTIONS
    ]


def _fill_form(form: RunForm, posted: QueryDict) -> RunForm:
    """Return a form with the submitted values in place of those of the last run."""
    return replace(
        form,
        policy=ReplayPolicy(
            posted.get("replay_models", LIVE),
            posted.get("replay_tools", LIVE),
            run=posted.get("replay_run", ""),
        ),
        num_runs=_int_or_none(posted.get("num_runs", "")) or 1,
        has_last_run=False,
        parallelism=_int_or_none(posted.get("parallelism", "")) or DEFAULT_PARALLELISM,
        judge_model=posted.get("judge_model", ""),
        judge_samples=posted.get("judge_samples", ""),
        cases=frozenset(posted.getlist("case")),
        limits=_read_limits(posted),
    )


def _read_thresholds(run: EvalRun | None) -> dict[str, float]:
    """Return the thresholds of a run by metric; empty for no run."""
    return configs.read_thresholds(json.loads(run.config)) if run else {}


def suggest_order(config: RunConfig, last_run: EvalRun | None) -> RunOrder:
    """Return the order of the form as it is first shown."""
    remembered = _read_thresholds(last_run)
    thresholds = {name: remembered[name] for name in config.criteria if name in remembered}
    chosen = configs.choose_metrics(config, list(config.criteria), thresholds)
    return RunOrder(chosen, num_runs=last_run.num_runs if last_run else 1)


def _offered_metrics(config: RunConfig, cases: Sequence[Json]) -> list[tuple[Metric, bool]]:
    """Return the metrics of the form, and whether each runs without being chosen."""
    custom = config.data.get("custom_metrics") or {}
    needed = {*config.criteria, *(metric.name for metric in configs.automatic_metrics(cases))}
    metrics_with_flag = [(configs.custom_metric(name, declared), False) for name, declared in custom.items()]
    for name, metric in all_metrics().items():
        if metric.kind is MetricKind.INFORMATIONAL or name in custom:
            continue
        automatic = isinstance(metric, OwnMetric) and metric.applies is not None
        if not automatic or name in needed:
            metrics_with_flag.append((metric, automatic))
    return metrics_with_flag


def read_run_config(evalset: EvalSet) -> RunConfig:
    """Return the configuration beside an evalset's file, else the default.

    Raises:
        BadFile: the file is invalid.
    """
    folder = configured_folder()
    if folder is None:
        return configs.default_config()
    return configs.config_beside(library.evalset_path(folder, evalset), evalset.path)


def order_from_form(posted: QueryDict, config: RunConfig) -> RunOrder:
    """Return the order of a submitted form.

    Raises:
        BadInput: a field is invalid.
    """
    names = posted.getlist("metric")
    if not names:
        raise BadInput("No metric is chosen.", hint="Choose at least one: it decides what passes.")
    thresholds = {name: _read_threshold(posted, name) for name in names}
    chosen = configs.choose_metrics(config, names, thresholds)
    data = _with_options(chosen.data, posted)
    data = _with_judge(data, posted.get("judge_model", "").strip(), posted.get("judge_samples", ""))
    data = _with_simulator(data, posted)
    source = config.source if data == config.data else f"{config.source}, changed in the form"
    return RunOrder(
        RunConfig(data, source, config.warnings),
        case_ids=posted.getlist("case"),
        num_runs=_read_number(posted, "num_runs", 1),
        parallelism=_read_number(posted, "parallelism", DEFAULT_PARALLELISM),
        limits=EvalRunLimits.of(_read_limits(posted)),
        policy=ReplayPolicy.chosen(
            posted.get("replay_models", ""), posted.get("replay_tools", ""), run=posted.get("replay_run", "")
        ).as_json(),
    )


def _read_limits(posted: QueryDict) -> dict[str, str]:
    """Return the limits of a submitted form as text."""
    fields = ((name.partition(":"), posted.get(name, "")) for name in posted if name.startswith("limit:"))
    return {name: value for (_, _, name), value in fields}


def order_from_json(config: RunConfig, body: Mapping[str, Any]) -> RunOrder:
    """Return the order of an API request: cases, metrics, criteria, config, num_runs, parallelism, limits, replay.

    Raises:
        BadInput: a field is invalid.
        BadFile: the configuration is invalid.
    """
    if body.get("config") is not None:
        config = configs.parse_config(json.dumps(body["config"]), "config.json", "config")
    config = configs.choose_metrics(config, body.get("metrics"), body.get("criteria") or {})
    replay = body.get("replay") or {}
    return RunOrder(
        config,
        case_ids=body.get("cases") or (),
        num_runs=body.get("num_runs", 1),
        parallelism=body.get("parallelism", DEFAULT_PARALLELISM),
        limits=EvalRunLimits.of(body.get("limits") or {}),
        policy=ReplayPolicy.chosen(
            replay.get("models", ""), replay.get("tools", ""), run=replay.get("run", "")
        ).as_json(),
        source="api",
    )


def _metric_field(
    metric: Metric,
    config: RunConfig,
    posted: QueryDict | None,
    missing: str,
    always: bool,
    remembered: Mapping[str, float],
) -> MetricField:
    criterion = config.criteria.get(metric.name)
    configured = configs.criterion_threshold(criterion) if criterion is not None else metric.default
    threshold = remembered.get(metric.name, configured)
    chosen = metric.name in config.criteria
    if posted is not None:
        chosen = metric.name in posted.getlist("metric")
        threshold = _float_or(posted.get(f"threshold:{metric.name}", ""), threshold)
    if threshold is None:  # suggest the middle of the range
        threshold = ((metric.low or 0.0) + (1.0 if metric.high is None else metric.high)) / 2
    return MetricField(
        metric,
        chosen or always,
        threshold if math.isfinite(threshold) else None,
        missing,
        ", ".join(criteria.other_fields(metric.options, criterion)),
        tuple(_option_field(metric.name, option, criterion, posted) for option in metric.options),
        always,
        configured if configured not in (None, threshold) else None,
    )


def _option_field(
    name: str, option: Option, criterion: Criterion | None, posted: QueryDict | None
) -> OptionField:
    field_name = _field_name(name, option)
    if posted is not None and name in posted.getlist("options"):
        values = posted.getlist(field_name)
        value: Any = bool(values) if option.widget is Widget.FLAG else (values[-1] if values else "")
        return OptionField(option, field_name, value)
    value = criteria.option_value(criterion, option)
    return OptionField(
        option, field_name, criteria.rubrics_as_text(value) if option.widget is Widget.RUBRICS else value
    )


def _field_name(name: str, option: Option) -> str:
    return f"option:{name}:{option.name}"


def _unavailable_metrics() -> dict[str, str]:
    """Return why metrics cannot run: as a runtime reported last, else as far as this process can tell."""
    described = [json.loads(data) for data in KnownMetric.objects.values_list("data", flat=True)]
    return {
        **{name: missing_requirement(name) for name in ADK_METRICS},
        **{metric["name"]: metric["reason"] for metric in described},
    }


def _read_threshold(posted: QueryDict, name: str) -> float:
    text = posted.get(f"threshold:{name}", "").strip()
    threshold = _float_or(text, None)
    if threshold is None:
        raise BadInput(f"The threshold of {name} is no number: {text!r}.", hint="Give one, such as 0.8.")
    return threshold


def _with_options(data: Mapping[str, Any], posted: QueryDict) -> dict[str, Any]:
    """Apply the submitted options to their criteria; unchanged ones stay as in the file."""
    chosen = dict(data["criteria"])
    metrics = all_metrics()
    for name in posted.getlist("options"):
        if name in chosen and name in metrics:
            chosen[name] = _apply_options(chosen[name], name, metrics[name].options, posted)
    return {**data, "criteria": chosen}


def _apply_options(
    criterion: Criterion, name: str, options: Sequence[Option], posted: QueryDict
) -> Criterion:
    for option in options:
        values = posted.getlist(_field_name(name, option))
        value = criteria.read_input(option, values, criteria.option_value(criterion, option))
        if value is not None:
            criterion = criteria.with_value(criterion, option, value)
    return criterion


def _with_judge(data: Mapping[str, Any], model: str, samples: str) -> dict[str, Any]:
    """Set judge model and samples in every judged metric that does not set them."""
    judge, count, _ = criteria.JUDGE
    number = criteria.read_input(count, [samples], None)
    chosen = dict(data["criteria"])
    for name, criterion in chosen.items():
        if name not in ADK_METRICS or not ADK_METRICS[name].uses_judge:
            continue
        for option, value in ((judge, model), (count, number)):
            if value and not criteria.option_value(criterion, option):
                chosen[name] = criterion = criteria.with_value(criterion, option, value)
    return {**data, "criteria": chosen}


def _with_simulator(data: Mapping[str, Any], posted: QueryDict) -> dict[str, Any]:
    if criteria.SIMULATOR not in posted.getlist("options"):
        return dict(data)
    before = dict(data.get(criteria.SIMULATOR) or {})
    settings = _apply_options(before, criteria.SIMULATOR, criteria.SIMULATOR_OPTIONS, posted)
    return {**data, criteria.SIMULATOR: settings} if settings != before else dict(data)


def _read_number(posted: QueryDict, name: str, default: int) -> int:
    text = posted.get(name, "").strip()
    if not text:
        return default
    number = _int_or_none(text)
    if number is None:
        label = name.replace("_", " ").capitalize()
        raise BadInput(f"{label} is no whole number: {text!r}.", hint="Give one.")
    return number


def _int_or_none(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _float_or(text: str, default: float | None) -> float | None:
    try:
        return float(text)
    except ValueError:
        return default
