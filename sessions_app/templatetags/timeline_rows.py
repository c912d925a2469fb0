"""Filters of timeline rows: `{% load timeline_rows %}`."""

from __future__ import annotations

import re
from urllib.parse import urlencode, urlsplit

from django import template

from sessions_app.presentation import file_type, message_html

register = template.Library()

register.filter("marked_text", message_html.render_text)
register.filter("message_html", message_html.render_message)
register.filter("time_gap", message_html.format_gap)
register.filter("is_image_name", file_type.is_image_name)
register.filter("media_family", file_type.media_family)


@register.filter
def web_address(uri: object) -> str:
    """`{% if uri|web_address %}`: an http or https URL; empty for other schemes, such as `javascript:`."""
    text = str(uri)
    try:
        return text if urlsplit(text).scheme in {"http", "https"} else ""
    except ValueError:
        return ""


_RECORDING = re.compile(r"artifact://.+/_adk_live/([^/#]+)#(\d+)")
"""Address of the sound of a live run that ADK saved as an artifact (`google/adk/live/_realtime_cache_manager.py`)."""


@register.filter
def recording_query(uri: object) -> str:
    """`{{ uri|recording_query }}`: query string for the recording of a live run that an address names; else empty."""
    match = _RECORDING.fullmatch(str(uri))
    return artifact_query(match[1], match[2]) if match else ""


@register.simple_tag
def artifact_query(name: str, version: object = None) -> str:
    """`?{% artifact_query name version %}`: query string for an artifact; without a version, the newest."""
    return urlencode({"name": name} | ({} if version is None else {"version": version}))
