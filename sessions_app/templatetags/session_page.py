"""Tags and filters of the session page: `{% load session_page %}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import template
from django.utils.safestring import SafeString

from sessions_app.presentation import json_tree
from sessions_app.state import key_changes
from sessions_app.store import events
from sessions_app.store.events.conditions import comes_from_model
from sessions_app.store.models import Event, StateChange
from sessions_app.store.redaction import REDACTED, is_credential_name
from sessions_app.timeline import run_marks

register = template.Library()


@register.filter
def pairs(mapping: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """`{% for name, value in args|pairs %}`: items of a mapping; `args.items` would look up the key `items`."""
    return list((mapping or {}).items())


@register.filter
def redact_credential(value: object, name: object) -> object:
    """`{{ value|redact_credential:name }}`: a value that is hidden if its name is that of a credential."""
    return REDACTED if is_credential_name(str(name)) else value


register.filter("short_text", events.shorten)
register.filter("message_text", run_marks.message_text)


@register.filter
def has_answer_sources(event: Event) -> bool:
    """`{% if selected|has_answer_sources %}`: a page shows what the model was given before this answer or error."""
    return comes_from_model(event)


@register.filter
def writer_text(change: StateChange) -> str:
    """`{{ change|writer_text }}`: the writer of a ledger row."""
    return key_changes.writer_text(key_changes.read_change_writer(change), change.author, change.cause)


@register.filter
def is_inferred(change: StateChange) -> bool:
    """`{% if change|is_inferred %}`: the writer of a ledger row was inferred from the event."""
    return key_changes.is_inferred(key_changes.read_change_writer(change), change.author, change.cause)


@register.simple_tag
def event_tree(value: Any, url: str, pointer: str, depth: int = 2) -> SafeString:
    """`{% event_tree value url pointer %}`: the tree of an event's value; `url` is the address of the event's JSON."""
    return json_tree.render(value, url=f"{url}?{urlencode({'base': pointer})}", depth=depth)
