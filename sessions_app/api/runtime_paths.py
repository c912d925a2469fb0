"""ADK's paths that are forwarded to the app's runtime: artifacts, memory, graphs, tests. Traces are read from rows.

Bodies and responses are those of ADK's own server (`google/adk/cli/{api_server,dev_server}.py`).
"""

from __future__ import annotations

import json
from urllib.parse import quote

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from sessions_app.api import proxy
from sessions_app.errors import NotFound
from sessions_app.http import json_text
from sessions_app.paths import upstream_artifact_path, upstream_dev_path, upstream_path
from sessions_app.runs.runtime_client import provider
from sessions_app.store import units_of_work
from sessions_app.traces import adk_spans

APP = "/apps/{seg:app_name}"
USER = APP + "/users/{seg:user_id}"
ARTIFACTS = USER + "/sessions/{seg:session_id}/artifacts"
DEV = "/dev" + APP
TESTS = DEV + "/tests"

router = Router()


@router.get(APP + "/app-info")
async def app_info(request: HttpRequest, app_name: str) -> HttpResponseBase:
    """Describe an app's agents and their tools."""
    return await _forward(request, app_name, f"/apps/{quote(app_name, safe='')}/app-info")


@router.patch(USER + "/memory")
async def add_to_memory(request: HttpRequest, app_name: str, user_id: str) -> HttpResponseBase:
    """Add a session to the memory of its app and user."""
    of_user = upstream_path(app_name, user_id).removesuffix("/sessions")
    return await _forward(request, app_name, f"{of_user}/memory")


@router.api_operation(["GET", "POST"], ARTIFACTS)
async def artifacts(request: HttpRequest, app_name: str, user_id: str, session_id: str) -> HttpResponseBase:
    """List the names of a session's and its user's artifacts, or save an artifact."""
    return await _forward(request, app_name, upstream_artifact_path(app_name, user_id, session_id))


@router.api_operation(["GET", "DELETE"], ARTIFACTS + "/{rest:name}")
async def artifact(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, name: str
) -> HttpResponseBase:
    """Return an artifact, one of its versions, or their metadata; or delete the artifact."""
    return await _forward(request, app_name, upstream_artifact_path(app_name, user_id, session_id, name))


@router.get(DEV + "/build_graph")
async def agent_tree(request: HttpRequest, app_name: str) -> HttpResponseBase:
    """Return an app's agents as a tree, with its README."""
    return await _forward(request, app_name, upstream_dev_path(app_name, "build_graph"))


@router.get(DEV + "/build_graph_image")
async def workflow_graphs(request: HttpRequest, app_name: str) -> HttpResponseBase:
    """Return an app's workflows as Graphviz graphs."""
    return await _forward(request, app_name, upstream_dev_path(app_name, "build_graph_image"))


@router.get(DEV + "/graph")
async def app_graph(request: HttpRequest, app_name: str) -> HttpResponseBase:
    """Return an app's agents and tools as a Graphviz graph."""
    return await _forward(request, app_name, upstream_dev_path(app_name, "graph"))


@router.get(DEV + "/users/{seg:user_id}/sessions/{seg:session_id}/events/{seg:event_id}/graph")
async def event_graph(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, event_id: str
) -> HttpResponseBase:
    """Return an app's graph with an event's path highlighted."""
    parts = ("users", user_id, "sessions", session_id, "events", event_id, "graph")
    return await _forward(request, app_name, upstream_dev_path(app_name, *parts))


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


@router.get(TESTS)
async def list_tests(request: HttpRequest, app_name: str) -> HttpResponseBase:
    """List the recorded tests in an agent's folder."""
    return await _forward(request, app_name, upstream_dev_path(app_name, "tests"))


@router.post(TESTS + "/rebuild")
async def rebuild_tests(request: HttpRequest, app_name: str) -> HttpResponseBase:
    """Run the agent on the messages of one test or of all, and record the results."""
    return await _forward(request, app_name, upstream_dev_path(app_name, "tests", "rebuild"))


@router.post(TESTS + "/run")
async def run_tests(request: HttpRequest, app_name: str) -> HttpResponseBase:
    """Replay one test or all, and stream pytest's output."""
    return await _forward(request, app_name, upstream_dev_path(app_name, "tests", "run"))


@router.api_operation(["GET", "PUT", "DELETE"], TESTS + "/{seg:test_name}")
async def recorded_test(request: HttpRequest, app_name: str, test_name: str) -> HttpResponseBase:
    """Return, write or delete one recorded test."""
    return await _forward(request, app_name, upstream_dev_path(app_name, "tests", test_name))


@router.post("/agent-identity/finalize")
async def finalize_agent_identity(request: HttpRequest) -> HttpResponseBase:
    """Finish a consent of Google's agent identity, which belongs to no app, in the runtime of any app."""
    names = provider().apps()
    if not names:
        raise NotFound(
            "No agent is available to finish the consent.",
            hint="Serve an agents folder with at least one agent.",
        )
    return await _forward(request, names[0], "/agent-identity/finalize")


async def _forward(request: HttpRequest, app_name: str, path: str) -> HttpResponseBase:
    query = request.META.get("QUERY_STRING", "")
    return await proxy.forward(request, app_name, f"{path}?{query}" if query else path)
