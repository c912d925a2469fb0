"""Tags and filters of model calls and traces: `{% load traces %}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from sessions_app.prices import current_prices
from sessions_app.prices.costs import Cost, usages_cost
from sessions_app.store.events.call_usage import recorded_call_usage
from sessions_app.store.models import ModelCall
from sessions_app.store.traces import log_records

register = template.Library()

register.filter("log_level", log_records.level_name)


@register.filter
def call_seconds(call: ModelCall) -> float | None:
    """Seconds from the request to the complete response; None if unfinished."""
    return None if call.finished_at is None else call.finished_at - call.started_at


@register.filter
def first_seconds(call: ModelCall) -> float | None:
    """Seconds from the request to the first response chunk; None without one."""
    return None if call.first_at is None else call.first_at - call.started_at


@register.filter
def call_cost(call: ModelCall) -> Cost | None:
    """Cost of a model call; None without tokens or without prices."""
    return usages_cost([recorded_call_usage(call)], current_prices())


@register.filter
def without(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    """`{{ response|without:"content" }}`: the mapping without one key."""
    return {key: value for key, value in mapping.items() if key != name}
