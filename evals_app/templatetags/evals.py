"""Template filters of the evals pages: `{% load evals %}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import template
from django.core.paginator import Page
from django.template import Context

from evals_app.metrics.config import read_thresholds
from evals_app.metrics.gate_config import option_name
from evals_app.metrics.metric import metric_label
from evals_app.metrics.score_text import format_score
from evals_app.models import EvalRun
from evals_app.variants.variant import read_run_variant
from sessions_app.tables.numbered_pages import number_pages

register = template.Library()

OPENED = ("attempt", "case", "saved")
"""Parameters of what is open on a page of cases, or was just saved."""

register.filter("score", format_score)


@register.inclusion_tag("devui/components/pager.html", takes_context=True)
def case_pager(context: Context, page: Page[Any]) -> dict[str, Any]:
    """`{% case_pager cases %}`: links to the pages of cases before and after one, with the filters of the address."""

    def page_url(number: int) -> str:
        query = context["request"].GET.copy()
        for name in OPENED:
            query.pop(name, None)
        query["page"] = str(number)
        return f"?{query.urlencode()}"

    return {**number_pages(page, page_url), "label": "Pages of cases"}


@register.filter
def score_change(difference: float | None) -> str:
    """`{{ pair.difference|score_change }}`: +0.25, −0.5; an en dash for no difference of scores."""
    if difference is None:
        return "–"
    return f"{difference:+.3f}".rstrip("0").rstrip(".").replace("-", "−") if round(difference, 3) else "0"


@register.filter
def run_seconds(run: EvalRun) -> float | None:
    """`{{ run|run_seconds|duration }}`: seconds from start to end; None before the end."""
    return run.finished_at - run.started_at if run.finished_at and run.started_at else None


@register.filter
def threshold_changes(run: EvalRun) -> list[tuple[str, float, float]]:
    """`{{ run|threshold_changes }}`: [(metric, threshold of the run before, threshold)] where both differ."""
    previous = read_thresholds(json.loads(getattr(run, "previous_config", None) or "{}"))
    return [
        (metric_label(name), previous[name], threshold)
        for name, threshold in read_thresholds(json.loads(run.config)).items()
        if previous.get(name, threshold) != threshold
    ]


@register.filter
def variant_name(run: EvalRun) -> str:
    """Return the name of a run's variant."""
    variant = read_run_variant(run)
    return variant.name if variant else ""


@register.filter
def gate_options(settings: Mapping[str, Any]) -> list[str]:
    """`{{ config.data.devui_gate|gate_options }}`: settings of a gate as options of the command line."""
    options = []
    for name, value in settings.items():
        values = (
            [f"{key}={number:g}" for key, number in value.items()] if isinstance(value, dict) else [value]
        )
        options += [
            f"{option_name(name)} {number if isinstance(number, str) else f'{number:g}'}"
            for number in values
            if number is not None
        ]
    return options


@register.filter
def call(value: Mapping[str, Any]) -> str:
    """`{{ call|call }}`: get_weather(city="Paris")."""
    arguments = ", ".join(
        f"{name}={argument(argument_value)}" for name, argument_value in (value.get("args") or {}).items()
    )
    return f"{value.get('name', '')}({arguments})"


@register.filter
def argument(value: Any) -> str:
    """`{{ value|argument }}`: a value as JSON, as one would write it in a case."""
    return json.dumps(value, ensure_ascii=False)


@register.filter
def key_scope(key: str) -> str:
    """`{% scope key|key_scope %}`: the scope that a key's prefix names."""
    prefix, colon, _ = key.partition(":")
    return prefix if colon and prefix in {"app", "user", "temp"} else "session"
