"""ADK's paths that are forwarded to the app's runtime: artifacts, memory, graphs, tests. Traces are read from rows.

Bodies and responses are those of ADK's own server (`google/adk/cli/{api_server,dev_server}.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Path, Schema

from sessions_app import roles
from sessions_app.api import proxy
from sessions_app.api.routing import Router, needs
from sessions_app.http import json_text
from sessions_app.paths import quote_upstream, upstream_artifact_path
from sessions_app.roles import AccessRule, Role
from sessions_app.routes import declare_rules
from sessions_app.runs.runtime_client import provider
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import NotFound
from sessions_app.traces import adk_spans

APP = "/apps/{seg:app_name}"
USER = APP + "/users/{seg:user_id}"
SESSION = USER + "/sessions/{seg:session_id}"
DEV = "/dev" + APP
TESTS = DEV + "/tests"

EDIT_TESTS = AccessRule(Role.RUNNER, "edit", "recorded test")
RUN_TESTS = AccessRule(Role.RUNNER, "run", "recorded test")
DELETE_TEST = AccessRule(Role.ADMIN, "delete", "recorded test")

FORWARDED: dict[str, dict[str, AccessRule]] = {
    APP + "/app-info": {"GET": roles.READ},
    USER + "/memory": {"PATCH": roles.REMEMBER},
    SESSION + "/artifacts": {"GET": roles.READ, "POST": roles.UPLOAD},
    DEV + "/build_graph": {"GET": roles.READ},
    DEV + "/build_graph_image": {"GET": roles.READ},
    DEV + "/graph": {"GET": roles.READ},
    "/dev" + SESSION + "/events/{seg:event_id}/graph": {"GET": roles.READ},
    TESTS: {"GET": roles.READ},
    TESTS + "/rebuild": {"POST": EDIT_TESTS},
    TESTS + "/run": {"POST": RUN_TESTS},
    TESTS + "/{seg:test_name}": {"GET": roles.READ, "PUT": EDIT_TESTS, "DELETE": DELETE_TEST},
}
"""Paths that ADK's server has under the same path, and the rules of their methods."""

router = Router()


class PathIds(Schema):
    """The ids in a forwarded path."""

    app_name: str
    user_id: str = ""
    session_id: str = ""
    event_id: str = ""
    test_name: str = ""


def forwarding_view(rules: dict[str, AccessRule]) -> Callable[..., Awaitable[HttpResponseBase]]:
    """Return a view, with rules by method, that forwards requests to the same path of ADK's server."""

    async def forward(request: HttpRequest, ids: Path[PathIds]) -> HttpResponseBase:
        """Forward a request to the same path of ADK's server.

        Raises:
            BadInput: an id cannot be in a path of ADK's server.
        """
        names = ids.dict()
        route = request.resolver_match.route if request.resolver_match else ""
        path = re.sub(r"<seg:(\w+)>", lambda part: quote_upstream(part[1], names[part[1]]), route)
        return await _forward_request(request, ids.app_name, f"/{path}")

    return declare_rules(forward, rules)


for _path, _rules in FORWARDED.items():
    router.add_api_operation(_path, list(_rules), forwarding_view(_rules))


@router.api_operation(["GET", "DELETE"], SESSION + "/artifacts/{rest:name}")
@needs(get=roles.READ, delete=roles.DELETE_ARTIFACT)
async def artifact(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, name: str
) -> HttpResponseBase:
    """Return an artifact, one of its versions, or their metadata; or delete the artifact."""
    return await _forward_request(
        request, app_name, upstream_artifact_path(app_name, user_id, session_id, name)
    )


@router.get(DEV + "/debug/trace/session/{seg:session_id}")
async def session_trace(request: HttpRequest, app_name: str, session_id: str) -> HttpResponseBase:
    """Return the spans of a session's runs from rows, which survive restarts."""
    return json_text(json.dumps(await units_of_work.read(adk_spans.session_trace, app_name, session_id)))


@router.get(DEV + "/debug/trace/{seg:event_id}")
async def event_trace(request: HttpRequest, app_name: str, event_id: str) -> HttpResponseBase:
    """Return the attributes of the span that produced an event, from rows."""
    attributes = await units_of_work.read(adk_spans.event_trace, app_name, event_id)
    if attributes is None:
        raise NotFound("Trace not found", hint="No stored span produced this event.")
    return json_text(json.dumps(attributes))


@router.post("/agent-identity/finalize")
@needs(post=roles.RUN)
async def finalize_agent_identity(request: HttpRequest) -> HttpResponseBase:
    """Finish a consent of Google's agent identity, which belongs to no app, in the runtime of any app."""
    names = provider().apps()
    if not names:
        raise NotFound(
            "No agent is available to finish the consent.",
            hint="Serve an agents folder with at least one agent.",
        )
    return await _forward_request(request, names[0], "/agent-identity/finalize")


async def _forward_request(request: HttpRequest, app_name: str, path: str) -> HttpResponseBase:
    query = request.META.get("QUERY_STRING", "")
    return await proxy.forward(request, app_name, f"{path}?{query}" if query else path)
