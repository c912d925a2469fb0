"""Filters of trends: `{% load trends %}`."""

from __future__ import annotations

import re

from django import template

from sessions_app.statistics import Estimate
from sessions_app.templatetags import devui

register = template.Library()


@register.filter
def amount(value: float | None, unit: str) -> str:
    """`{{ value|amount:"seconds" }}`: a value with its unit, 1.24 s; units are those of `trends.measures`."""
    if value is None:
        return "unknown" if unit.startswith("money") else ""
    if unit.startswith("money"):
        return devui.money(value, unit.partition(" ")[2])
    if unit == "share":
        return f"{100 * value:.3g} %"
    return devui.duration(value) if unit == "seconds" else devui.compact(round(value))


@register.filter
def axis_label(value: float, unit: str) -> str:
    """`{{ value|axis_label:"money" }}`: a value of a scale without zeros at the end, 0.5 instead of 0.5000."""
    text = amount(value, unit.partition(" ")[0])
    return re.sub(r"\.0+(?!\d)|(?<=\.)(\d*[1-9])0+(?!\d)", r"\1", text)


@register.filter
def change(difference: Estimate, unit: str) -> str:
    """`{{ estimate|change:"seconds" }}`: a difference with its interval, +120 ms (−20 ms to +260 ms)."""
    interval = difference.interval
    texts = [_format_signed(value, unit) for value in (difference.value, interval.low, interval.high)]
    label = " points" if unit == "share" else ""
    currency = f"{unit.partition(' ')[2]} " if unit.startswith("money") else ""
    return f"{currency}{texts[0]}{label} ({texts[1]} to {texts[2]})"


def _format_signed(value: float, unit: str) -> str:
    """Return a difference with its sign, without the unit of shares and money."""
    size = f"{100 * abs(value):.3g}" if unit == "share" else amount(abs(value), unit.partition(" ")[0])
    return f"{'+' if value > 0 else '−' if value < 0 else '±'}{size}"
