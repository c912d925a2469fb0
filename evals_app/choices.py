"""The run form: what it offers for an evalset, and what was chosen. Also the shape the API takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from evals_app import configs
from evals_app.alignment import Rules
from evals_app.configs import Config
from evals_app.launch import DEFAULT_PARALLELISM, Order
from evals_app.metrics import METRICS, Kind, Metric, missing_for
from evals_app.models import KnownMetric
from sessions_app.errors import BadInput

TRAJECTORY = "tool_trajectory_avg_score"
MATCH_TYPES = (
    ("EXACT", "exactly these, in order"),
    ("IN_ORDER", "these in order, others between"),
    ("ANY_ORDER", "these in any order"),
)


@dataclass(frozen=True)
class Offer:
    """One metric of the form. `missing` says why it cannot run."""

    metric: Metric
    chosen: bool
    threshold: float
    missing: str = ""
    more: str = ""

    @property
    def is_trajectory(self) -> bool:
        """Tell whether the form asks how calls are to match."""
        return self.metric.name == TRAJECTORY


@dataclass(frozen=True)
class Choices:
    """What the form shows."""

    offers: list[Offer]
    rules: Rules
    num_runs: int = 1
    parallelism: int = DEFAULT_PARALLELISM
    judge_model: str = ""
    judge_samples: int | None = None
    cases: frozenset[str] = field(default_factory=frozenset)

    @property
    def chosen(self) -> list[Offer]:
        """Metrics that are chosen as the form opens, and those computed without asking anybody."""
        return [
            offer for offer in self.offers if offer.chosen or offer.metric.kind in (Kind.EXACT, Kind.CUSTOM)
        ]

    @property
    def others(self) -> list[Offer]:
        """The other metrics that can run."""
        return [offer for offer in self.offers if offer not in self.chosen and not offer.missing]

    @property
    def missing(self) -> list[Offer]:
        """The metrics that cannot run."""
        return [offer for offer in self.offers if offer not in self.chosen and offer.missing]

    @property
    def judges(self) -> bool:
        """Tell whether a model is asked to judge."""
        return any(offer.chosen and offer.metric.judged for offer in self.offers)


def offered(config: Config, posted: QueryDict | None = None) -> Choices:
    """Return the form for a configuration; after a refusal, with what was sent."""
    custom = config.data.get("custom_metrics") or {}
    own = [configs.custom_metric(name, declared) for name, declared in custom.items()]
    missing = _missing()
    metrics = [*own, *(metric for metric in METRICS.values() if metric.kind is not Kind.INFORMATIONAL)]
    chosen = list(config.criteria) if posted is None else posted.getlist("metric")
    offers = [_offer(metric, config, chosen, posted, missing) for metric in metrics]
    offers.sort(key=lambda offer: not offer.chosen)
    if posted is None:
        options = _judge_options(config)
        return Choices(
            offers,
            Rules.of(config.criteria.get(TRAJECTORY)),
            judge_model=str(options.get("judge_model") or ""),
            judge_samples=options.get("num_samples"),
        )
    return Choices(
        offers,
        Rules(posted.get("match_type", "EXACT"), bool(posted.get("ignore_args"))),
        num_runs=_int(posted.get("num_runs", "")) or 1,
        parallelism=_int(posted.get("parallelism", "")) or DEFAULT_PARALLELISM,
        judge_model=posted.get("judge_model", ""),
        judge_samples=_int(posted.get("judge_samples", "")),
        cases=frozenset(posted.getlist("case")),
    )


def order_of(posted: QueryDict, config: Config) -> Order:
    """Return what the form asks for.

    Raises:
        BadInput: a field cannot be meant.
    """
    names = posted.getlist("metric")
    if not names:
        raise BadInput("No metric is chosen.", hint="Choose at least one: it decides what passes.")
    thresholds = {name: _threshold(posted, name) for name in names}
    chosen = configs.choose(config, names, thresholds)
    data = _with_rules(chosen.data, posted)
    data = _with_judge(data, posted.get("judge_model", "").strip(), _number(posted, "judge_samples", 0))
    source = config.source if data == config.data else f"{config.source}, changed in the form"
    return Order(
        Config(data, source, config.warnings),
        case_ids=posted.getlist("case"),
        num_runs=_number(posted, "num_runs", 1),
        parallelism=_number(posted, "parallelism", DEFAULT_PARALLELISM),
    )


def order_from(config: Config, wanted: Mapping[str, Any]) -> Order:
    """Return what the API asks for: cases, metrics, criteria, config, num_runs, parallelism.

    Raises:
        BadInput: a field cannot be meant.
        BadFile: the configuration sent is none.
    """
    if wanted.get("config") is not None:
        config = configs.parse(json.dumps(wanted["config"]), "config.json", "config")
    config = configs.choose(config, wanted.get("metrics"), wanted.get("criteria") or {})
    return Order(
        config,
        case_ids=wanted.get("cases") or (),
        num_runs=wanted.get("num_runs", 1),
        parallelism=wanted.get("parallelism", DEFAULT_PARALLELISM),
        source="api",
    )


def _offer(
    metric: Metric,
    config: Config,
    chosen: Sequence[str],
    posted: QueryDict | None,
    missing: Mapping[str, str],
) -> Offer:
    criterion = config.criteria.get(metric.name)
    threshold = configs.threshold_of(criterion) if criterion is not None else metric.default
    if posted is not None and (sent := posted.get(f"threshold:{metric.name}")):
        threshold = _float(sent, threshold)
    own = (
        sorted(set(criterion) - {"threshold", "match_type", "ignore_args"})
        if isinstance(criterion, dict)
        else []
    )
    return Offer(
        metric,
        metric.name in chosen,
        _middle(metric) if threshold is None else threshold,
        missing.get(metric.name, ""),
        ", ".join(name.replace("_", " ") for name in own),
    )


def _middle(metric: Metric) -> float:
    """Return the threshold that the form suggests for a metric that has no default."""
    return ((metric.low or 0.0) + (1.0 if metric.high is None else metric.high)) / 2


def _missing() -> dict[str, str]:
    """Return why metrics cannot run, as a runtime said last; before any has, as it looks from here."""
    described = [json.loads(data) for data in KnownMetric.objects.values_list("data", flat=True)]
    return {
        **{name: missing_for(name) for name in METRICS},
        **{metric["name"]: metric["reason"] for metric in described},
    }


def _threshold(posted: QueryDict, name: str) -> float:
    sent = posted.get(f"threshold:{name}", "").strip()
    threshold = _float(sent, None)
    if threshold is None:
        raise BadInput(f"The threshold of {name} is no number: {sent!r}.", hint="Give one, such as 0.8.")
    return threshold


def _with_rules(data: Mapping[str, Any], posted: QueryDict) -> dict[str, Any]:
    """Put the form's rules of the tool trajectory into its criterion; the plainest rules stay a plain number."""
    criteria = dict(data["criteria"])
    old = criteria.get(TRAJECTORY)
    rules = Rules(posted.get("match_type", "EXACT"), bool(posted.get("ignore_args")))
    if old is None or rules == Rules.of(old):
        return {**data, "criteria": criteria}
    kept = dict(old) if isinstance(old, dict) else {"threshold": old}
    for spelling in ("matchType", "ignoreArgs"):
        kept.pop(spelling, None)
    criteria[TRAJECTORY] = {**kept, "match_type": rules.match_type, "ignore_args": rules.ignore_args}
    return {**data, "criteria": criteria}


def _with_judge(data: Mapping[str, Any], model: str, samples: int) -> dict[str, Any]:
    """Ask this model, so many times, in every metric that a model judges."""
    criteria = dict(data["criteria"])
    for name, criterion in criteria.items():
        options = {"judge_model": model} if model else {}
        wanted = {**options, **({"num_samples": samples} if samples else {})}
        if wanted and name in METRICS and METRICS[name].judged:
            kept = dict(criterion) if isinstance(criterion, dict) else {"threshold": criterion}
            before = kept.pop("judgeModelOptions", None) or kept.get("judge_model_options") or {}
            criteria[name] = {**kept, "judge_model_options": {**before, **wanted}}
    return {**data, "criteria": criteria}


def _judge_options(config: Config) -> dict[str, Any]:
    """Return the judge that a configuration names first."""
    judged: Iterable[Any] = (
        criterion for name, criterion in config.criteria.items() if name in METRICS and METRICS[name].judged
    )
    for criterion in judged:
        if isinstance(criterion, dict):
            found = criterion.get("judge_model_options") or criterion.get("judgeModelOptions")
            if found:
                return dict(found)
    return {}


def _number(posted: QueryDict, name: str, default: int) -> int:
    sent = posted.get(name, "").strip()
    if not sent:
        return default
    number = _int(sent)
    if number is None:
        raise BadInput(
            f"{name.replace('_', ' ').capitalize()} is no whole number: {sent!r}.", hint="Give one."
        )
    return number


def _int(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _float(text: str, default: float | None) -> float | None:
    try:
        return float(text)
    except ValueError:
        return default
