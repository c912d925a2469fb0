"""Filters of the session page: `{% load session_page %}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from sessions_app.timeline import changes, runs

register = template.Library()


@register.filter
def pairs(mapping: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """`{% for name, value in args|pairs %}`: `args.items` would be the argument that is called `items`."""
    return list((mapping or {}).items())


register.filter("message_text", runs.message_text)
register.filter("writer_text", changes.writer_text)
