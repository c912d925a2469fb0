"""MCP over streamable HTTP: one request, one JSON response, without sessions between them. Imports the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from mcp.server.transport_security import TransportSecuritySettings

from devui.mcp.api_client import CollectedResponse, build_client, make_receive, use_client
from devui.mcp.server import build_server

CHECKED_BEFORE = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The middleware has checked Host and Origin."""


async def answer_request(request: HttpRequest) -> HttpResponse:
    """Answer a message of a client. Its length is limited because answers of tools are."""
    scope: Mapping[str, Any] = cast(ASGIRequest, request).scope
    server = build_server(can_write=settings.DEVUI_MCP_WRITE)
    server.streamable_http_app(json_response=True, stateless_http=True, transport_security=CHECKED_BEFORE)
    collected = CollectedResponse()
    manager = server.session_manager
    with use_client(build_client(request, scope)):
        async with manager.run():
            await manager.handle_request(dict(scope), make_receive(request.body), collected.send)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in collected.headers}
    return HttpResponse(bytes(collected.body), status=collected.status, headers=headers)
