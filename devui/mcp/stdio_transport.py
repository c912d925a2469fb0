"""MCP over stdin and stdout, for the client that started this process. Imports the SDK."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import get_script_prefix

from devui.mcp.api_client import ApiClient, use_client
from devui.mcp.errors import RefusedCall
from devui.mcp.server import build_server
from sessions_app.store.errors import Forbidden


async def serve_stdio(*, can_write: bool, base_url: str, token: str) -> None:
    """Answer messages until stdin ends.

    Args:
        can_write: with the tools that run agents or write files.
        base_url: URL of the server whose pages answers link to.
        token: token of the API; empty: none.

    Raises:
        Forbidden: the store has a login, and the token is none of its tokens.
    """
    client = local_client(base_url, token)
    await _require_access(client)
    with use_client(client):
        await build_server(can_write=can_write).run_stdio_async()


def local_client(base_url: str, token: str) -> ApiClient:
    """Return the client of the API for this process's own requests."""
    return ApiClient(_local_scope(token), get_script_prefix(), f"{base_url.rstrip('/')}/")


async def _require_access(client: ApiClient) -> None:
    try:
        await client.get("/sessions", limit=1)
    except RefusedCall as error:
        raise Forbidden(
            f"The store cannot be read: {error.message}.",
            hint="Set DEVUI_TOKEN to a token: `devui login --token` makes one; with users, create one at /account/.",
        ) from error


def _local_scope(token: str) -> dict[str, Any]:
    """Return the scope of a request of this machine to a host that the settings allow."""
    name = settings.ALLOWED_HOSTS[0]
    host = "127.0.0.1" if name == "*" else name.lstrip(".")
    authorization = [(b"authorization", f"Bearer {token}".encode())] if token else []
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 0),
        "root_path": "",
        "headers": [(b"host", host.encode()), *authorization],
    }
