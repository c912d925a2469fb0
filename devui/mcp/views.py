"""The address /mcp. The SDK is imported at its first request."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from devui.mcp.errors import require_sdk


async def serve(request: HttpRequest) -> HttpResponse:
    """Answer a message of an MCP client.

    Raises:
        SdkMissing: the SDK is not installed.
    """
    require_sdk()
    from devui.mcp.http_transport import answer_request

    return await answer_request(request)
