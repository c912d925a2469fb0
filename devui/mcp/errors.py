"""Errors of MCP clients' requests."""

from __future__ import annotations

import importlib.util

from sessions_app.store.errors import DevUIError

SDK = "mcp"


class SdkMissing(DevUIError):
    """The SDK of MCP is not installed."""

    status = 501
    code = "mcp_missing"


class RefusedCall(DevUIError):
    """The API refused the request of a tool."""

    status = 400
    code = "refused_call"


def require_sdk() -> None:
    """Check that the SDK is installed, without importing it.

    Raises:
        SdkMissing: it is not.
    """
    if importlib.util.find_spec(SDK) is None:
        raise SdkMissing(
            "MCP needs its SDK, which is not installed.", hint="Install it: pip install 'devui[mcp]'"
        )
