"""Tags and filters of runs and of the console: `{% load runs %}`."""

from __future__ import annotations

import uuid
from typing import TypedDict

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app.agents import remotes
from sessions_app.models import AgentCard, AgentSession, Run
from sessions_app.runs import agent_loading, error_hints, lifecycle, message_draft, rerun

register = template.Library()


class Limits(TypedDict):
    """How many files a message may carry, and their bytes together."""

    files: int
    bytes: int


@register.simple_tag
def file_limits() -> Limits:
    """`{% file_limits as limits %}`: what a message may carry."""
    return {"files": message_draft.MAX_FILES, "bytes": message_draft.MAX_BYTES}


@register.simple_tag
def send_id() -> SafeString:
    """`{% send_id %}`: the field by which a form that is sent twice queues one run: the id of that run."""
    return format_html('<input type="hidden" name="send_id" value="{}" autocomplete="off">', uuid.uuid4().hex)


@register.filter
def input_label(name: str) -> str:
    """`{{ name|input_label }}`: what an input of the console is called, by its name in the form."""
    return name.removeprefix(message_draft.CONFIG_PREFIX)


@register.filter("diagnosis")
def diagnosis_of(run: Run) -> str:
    """`{{ run|diagnosis }}`: what its error means, and the way out."""
    return error_hints.hint_for(run.error_type)


@register.filter
def can_repeat(run: Run) -> bool:
    """`{% if run|can_repeat %}`: it ended badly, and its message can be sent once more. It needs its request."""
    return run.status in lifecycle.UNSUCCESSFUL and rerun.can_repeat(run.request)


@register.filter
def can_be_spoken_with(session: AgentSession) -> bool:
    """`{% if session|can_be_spoken_with %}`: its agent is not known to refuse. At most one query.

    ADK's live socket finds no private fork; of an agent that was never loaded nothing is known.
    """
    if session.realm:
        return False
    remote = remotes.remote_of_app(session.app_name)
    if remote is not None:
        return remote.is_spoken_with
    return agent_loading.can_speak_live(session.app_name) is not False


@register.filter
def can_resume(run: Run) -> bool:
    """`{% if run|can_resume %}`: it ended badly within an invocation that its app resumes. At most two queries.

    What a later run went on with is not offered.
    """
    if run.status not in lifecycle.UNSUCCESSFUL or not run.invocation_id:
        return False
    app = AgentSession.objects.filter(pk=run.session_id).values("app_name")
    resumes = AgentCard.objects.filter(app_name__in=app, description__contains='"resumable": true').exists()
    return resumes and lifecycle.find_unresumable_run(run.session_id, run.invocation_id) is None
