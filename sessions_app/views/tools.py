"""Page of a tool of an agent, with a form that calls it by hand."""

from __future__ import annotations

import json
import re
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.forms.tools import ToolCallForm, ToolQuery
from sessions_app.http import partial_target
from sessions_app.paths import seg_reverse
from sessions_app.runs.tool_calls import call_tool, list_notices, read_session
from sessions_app.sessions import listing, overview
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError, NotFound
from sessions_app.store.models import AgentSession
from sessions_app.traces.toolset_tools import CallableTool, find_callable_tool

PAGE = "devui/agents/tool.html"
SCOPE = "tool-call"
"""Id of the element with the form on a tool's page, with which the ids of its controls begin. The agent's page has an
element for each tool."""

SESSIONS_OFFERED = 10
"""Newest sessions that the form suggests; their model requests show which tools the toolsets have."""

MAX_COPIED = 200_000
"""Most characters of a result's JSON that the page holds for its copy button; the API returns more."""


async def tool(request: HttpRequest, app_name: str, tool: str) -> HttpResponse:
    """Show the form of a tool; a POST calls the tool and shows the outcome below the form.

    Raises:
        NotFound: the app is unknown, or its description has no such tool.
    """
    sessions, callable_tool = await units_of_work.read(
        _find_tool, app_name, tool, ToolQuery(request.GET).read()["agent"]
    )
    target = partial_target(request)
    scope = target if re.fullmatch(r"[\w-]{1,100}", target) else SCOPE
    is_call = request.method == "POST"
    form = ToolCallForm(callable_tool.schema, request.POST if is_call else None, auto_id=f"{scope}-%s")
    context: dict[str, Any] = {"outcome": None, "problem": None}
    status = 200
    if is_call:
        status = 422
        if form.is_valid():
            context |= await _call(form, app_name, callable_tool)
            status = 422 if context["problem"] else 200
    context |= {
        "app_name": app_name,
        "tool": callable_tool,
        "form": form,
        "scope": scope,
        "field_scope": f"{scope}-",
        "sessions": sessions,
        "url": f"{seg_reverse('tool-call', app_name=app_name, tool=tool)}?{request.GET.urlencode()}",
    }
    template = f"{PAGE}#call" if target else PAGE
    return await sync_to_async(render)(request, template, context, status=status)


async def _call(form: ToolCallForm, app_name: str, callable_tool: CallableTool) -> dict[str, Any]:
    """Call a tool and return the context of its outcome, or of the problem that prevented it."""
    try:
        call = form.call_body(callable_tool.name, callable_tool.agent)
        if (pk := form.cleaned_data["from_session"]) is not None:
            call |= await units_of_work.read(read_session, pk, app_name)
        outcome = await call_tool(app_name, call)
    except DevUIError as error:
        return {"problem": error}
    return {
        "outcome": outcome,
        "result_text": _format_result(outcome["result"]),
        "notices": list_notices(outcome),
    }


def _format_result(result: Any) -> str:
    """Return the indented JSON of a result; empty if it is too large to copy: indenting megabytes takes seconds."""
    is_short = len(json.dumps(result)) <= MAX_COPIED
    text = json.dumps(result, indent=2, ensure_ascii=False) if is_short else ""
    return text if len(text) <= MAX_COPIED else ""


def _find_tool(app_name: str, name: str, agent_name: str) -> tuple[list[AgentSession], CallableTool]:
    agent = overview.require_agent(app_name)
    sessions = list(listing.list_newest_sessions(app_name)[:SESSIONS_OFFERED])
    callable_tool = find_callable_tool(agent.tree, sessions, name, agent_name) if agent.tree else None
    if callable_tool is None:
        raise NotFound(
            f"The description of agent {app_name!r} has no tool {name!r}.",
            hint="Open the agent's page, which loads the agent and lists its tools. Those of a toolset are known from"
            " the newest recorded model request.",
        )
    return sessions, callable_tool
