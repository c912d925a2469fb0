"""Tags and filters of runs and of the console: `{% load runs %}`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app.agents import remotes
from sessions_app.console import message_draft, pause_form
from sessions_app.runs import agent_loading, error_hints, lifecycle, rerun
from sessions_app.store.models import AgentCard, AgentSession, Run

register = template.Library()


@register.simple_tag
def file_limits() -> dict[str, int]:
    """`{% file_limits as limits %}`: limits of a message's files."""
    return {"files": message_draft.MAX_FILES, "bytes": message_draft.MAX_BYTES}


@register.simple_tag
def send_id() -> SafeString:
    """`{% send_id %}`: a hidden field with the id of the run to queue, so that a form sent twice queues one run."""
    return format_html('<input type="hidden" name="send_id" value="{}" autocomplete="off">', uuid.uuid4().hex)


@register.filter
def input_label(name: str) -> str:
    """`{{ name|input_label }}`: the label of a console input, from its form name."""
    return pause_form.LABELS.get(name) or name.removeprefix(message_draft.CONFIG_PREFIX)


@register.filter
def can_pause(session: AgentSession) -> bool:
    """`{% if session|can_pause %}`: runs of the session can pause; those on another server cannot."""
    return remotes.find_remote(session.app_name) is None


@register.filter("diagnosis")
def run_diagnosis(run: Run) -> str:
    """`{{ run|diagnosis }}`: explanation of a run's error, and how to fix it."""
    return error_hints.hint_for(run.error_type)


@register.simple_tag
def load_hint(error: Mapping[str, Any]) -> str:
    """`{% load_hint error as text %}`: how to fix the error with which an agent failed to load; empty: unknown."""
    return error_hints.load_hint(error.get("type") or "", error.get("message") or "")


@register.filter
def can_repeat(run: Run) -> bool:
    """`{% if run|can_repeat %}`: the run failed and its message can be sent again. Needs `run.request` loaded."""
    return run.status in lifecycle.UNSUCCESSFUL and rerun.can_repeat(run.request)


@register.filter
def may_support_live_runs(session: AgentSession) -> bool:
    """`{% if session|may_support_live_runs %}`: the session's agent may support live runs. At most one query.

    True for an agent that was never loaded; false for sessions of realms, which ADK's live socket does not find.
    """
    if session.realm:
        return False
    remote = remotes.find_remote(session.app_name)
    if remote is not None:
        return remote.has_live_runs
    return agent_loading.can_speak_live(session.app_name) is not False


@register.filter
def can_resume(run: Run) -> bool:
    """`{% if run|can_resume %}`: the run failed within a resumable invocation that no later run has resumed.

    At most two queries.
    """
    if run.status not in lifecycle.UNSUCCESSFUL or not run.invocation_id:
        return False
    app = AgentSession.objects.filter(pk=run.session_id).values("app_name")
    resumes = AgentCard.objects.filter(app_name__in=app, description__contains='"resumable": true').exists()
    return resumes and lifecycle.find_unresumable_run(run.session_id, run.invocation_id) is None
