"""Reverse proxy to ADK's own server in an app's runtime.

The body is forwarded unchanged and the response is streamed. When the client disconnects, the upstream request is
closed and ADK cancels the run.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

import httpx
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from sessions_app.http import EVENT_STREAM, error_frame, json_text
from sessions_app.runs.runtime_client import NOBODY, Sender, provider
from sessions_app.store import scopes
from sessions_app.store.errors import DevUIError, RuntimeUnavailable

FORWARDED_HEADERS = ("Content-Type", "Accept", "Traceparent", "Tracestate")
STREAMS = (EVENT_STREAM, "text/plain")
"""Content types that are streamed. ADK's server sends the output of its tests as text."""

CODES = {
    400: "bad_input",
    403: "forbidden",
    404: "not_found",
    409: "already_exists",
    422: "invalid",
    500: "agent_failed",
    502: "upstream_failed",
}
HINTS = {
    400: "ADK's own server refused the request; `detail` says why.",
    403: "ADK's own server does not allow this; `detail` says why.",
    404: "GET the parent path to list what exists, or GET /list-apps to list the apps.",
    409: "Leave the id out to have one made, or delete the session first.",
    422: "Fix the fields that `detail` names; `loc` is their location.",
    500: "The agent failed. See its page and the session for the error.",
    502: "See the remote server's log.",
}

NO_SESSION_HINT = "Create the session first, and name an app that GET /list-apps lists."
UNKNOWN_HINT = "See the server's log for the output of the agent's process."


async def forward(
    request: HttpRequest, app_name: str, path: str, sender: Sender = NOBODY
) -> HttpResponseBase:
    """Forward a request to ADK's server in the app's runtime and return its response. `sender`: who starts a run by it.

    Raises:
        NotFound: no such app.
        RuntimeUnavailable: the runtime cannot be started, or died before it responded.
    """
    client = await provider().client(app_name)
    headers = {name: request.headers[name] for name in FORWARDED_HEADERS if name in request.headers}
    headers |= sender.headers()
    try:
        async with AsyncExitStack() as stack:
            opening = client.open(request.method or "POST", path, headers=headers, content=request.body)
            upstream = await stack.enter_async_context(opening)
            if upstream.is_success and upstream.headers.get("content-type", "").startswith(STREAMS):
                return _streaming_response(upstream, stack.pop_all())
            response = _full_response(upstream.status_code, await upstream.aread())
            if retry_after := upstream.headers.get("retry-after"):
                response.headers["Retry-After"] = retry_after
            return response
    except httpx.TransportError as error:
        raise _process_died_error() from error


def _full_response(status: int, content: bytes) -> HttpResponse:
    return json_text(content if status < 400 else scopes.dumps(_explain_error(status, content)), status)


def _explain_error(status: int, content: bytes) -> Mapping[str, object]:
    """Add DevUI's code and hint to an error of ADK's server."""
    try:
        body = json.loads(content)
    except ValueError:
        body = content.decode(errors="replace")
    if not isinstance(body, dict):
        body = {"detail": body}
    if str(body.get("detail", "")).startswith("Session not found"):
        body |= {"code": "session_not_found", "hint": NO_SESSION_HINT, **body}
    return {"detail": "", "code": CODES.get(status, "error"), "hint": HINTS.get(status, UNKNOWN_HINT), **body}


def _streaming_response(upstream: httpx.Response, closing: AsyncExitStack) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        _iter_frames(upstream, closing),
        status=upstream.status_code,
        content_type=upstream.headers["content-type"],
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _iter_frames(upstream: httpx.Response, closing: AsyncExitStack) -> AsyncIterator[bytes]:
    """Yield the response of ADK's server.

    If the runtime dies, end with an error frame.
    """
    try:
        async with closing:
            async for chunk in upstream.aiter_raw():
                yield chunk
    except (httpx.TransportError, DevUIError) as error:
        why = error if isinstance(error, DevUIError) else _process_died_error()
        if upstream.headers["content-type"].startswith(EVENT_STREAM):
            yield error_frame(why)
        else:
            yield f"\n{why.message} {why.hint}\n".encode()


def _process_died_error() -> RuntimeUnavailable:
    return RuntimeUnavailable(
        "The agent's process ended before it responded.",
        hint="The run is marked as crashed and its events are kept. Send the message again.",
    )
