"""Preview of the request that a model would get at an event; the agent's runtime builds it with ADK's own code."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from sessions_app.http import render_partial
from sessions_app.lookup import find_event, find_session
from sessions_app.runs.runtime_client import provider
from sessions_app.sessions.storage_location import find_mirror
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError
from sessions_app.store.models import AgentSession
from sessions_app.store.realms import is_read_only
from sessions_app.traces.model_calls import tool_names
from sessions_app.traces.preview_point import PreviewPoint, find_preview_point
from sessions_app.traces.request_contents import describe_content

PAGE = "devui/traces/model_preview.html"


async def at_event(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Show what the model sees at an event. A POST also calls instruction providers and toolsets, which are agent code.

    Raises:
        SessionMissing: no such session.
        EventMissing: no such event.
    """
    session, moment, can_edit = await units_of_work.read(_find_point, pk, seq)
    context: dict[str, Any] = {
        "session": session,
        "can_edit": can_edit,
        "name": session.name,
        "event": moment.event,
        "moment": moment,
    }
    try:
        client = await provider().client(session.app_name)
        preview = await client.call("POST", "/devui/seen", moment.question(session, request.method == "POST"))
        context |= _preview_context(preview)
    except DevUIError as error:
        context["problem"] = error
    return render_partial(request, PAGE, context, partial="body", target="seen")


def _find_point(pk: int, seq: int) -> tuple[AgentSession, PreviewPoint, bool]:
    """Return also whether the session's state can be edited."""
    session = find_session(pk)
    can_edit = not is_read_only(session) and find_mirror(session) is None
    return session, find_preview_point(session, find_event(session, seq=seq)), can_edit


def _preview_context(preview: dict[str, Any]) -> dict[str, Any]:
    first = preview["count"] - len(preview["contents"]) + 1
    uncalled = [
        entry for entry in preview["instructions"] if entry.get("provider") and not entry["is_called"]
    ]
    closed = [tool for tool in preview["tools"] if tool.get("toolset") and not tool["is_called"]]
    keys = []
    for instruction in preview["instructions"]:
        placeholders = {piece["placeholder"]: piece for piece in instruction["pieces"] if "key" in piece}
        instruction["placeholders"] = [_describe_placeholder(piece) for piece in placeholders.values()]
        keys += instruction["placeholders"]
    return {
        "preview": preview,
        "contents": [
            describe_content(number, content, "")
            for number, content in enumerate(preview["contents"], start=first)
        ],
        "hidden": first - 1,
        "tools": list(zip(tool_names(preview["tools"]), preview["tools"], strict=True)),
        "can_call_code": bool(uncalled or closed),
        "missing": [
            entry for entry in keys if entry["missing"] and not entry["optional"] and not entry["is_doubled"]
        ],
    }


def _describe_placeholder(piece: dict[str, Any]) -> dict[str, Any]:
    """Add whether it has double braces, the escape of other template languages, and whether it names a state key."""
    text = str(piece["placeholder"])
    is_doubled = text.startswith("{{") or text.endswith("}}")
    return {**piece, "is_doubled": is_doubled, "is_state": not str(piece["key"]).startswith("artifact.")}
