"""Requests of tools to DevUI's API, in this process, with the credentials of the MCP client.

A request passes the middleware like any other, so the guard checks the role of its own route and writes the audit log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode, urljoin

from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.urls import get_script_prefix, reverse

from devui.mcp.errors import RefusedCall
from devui.web.body_admission import PENDING

BODY_HEADERS = frozenset(
    {b"accept", b"connection", b"content-encoding", b"content-length", b"content-type", b"transfer-encoding"}
)
"""Headers of the client's request about its own body, which its tools' requests do not have."""


@dataclass(frozen=True)
class ApiClient:
    """Client of DevUI's API in this process.

    Attributes:
        scope: ASGI scope of the client's request.
        root: path of DevUI's first page, with a slash at its end.
        base_url: URL of DevUI's first page, for links.
    """

    scope: Mapping[str, Any]
    root: str
    base_url: str

    async def get(self, path: str, **query: object) -> Any:
        """Return the JSON of an operation. Empty parameters are left out.

        Raises:
            RefusedCall: the API refuses the request.
        """
        return await self._call(
            "GET", path, {name: value for name, value in query.items() if value not in (None, "")}
        )

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send JSON to an operation and return that of its response.

        Raises:
            RefusedCall: the API refuses the request.
        """
        return await self._call("POST", path, {}, json.dumps(body).encode())

    def link(self, route: str, query: str = "", **kwargs: object) -> str:
        """Return the URL of a page."""
        path = reverse(route, kwargs=kwargs).removeprefix(get_script_prefix())
        return urljoin(self.base_url, path) + (f"?{query}" if query else "")

    async def _call(self, method: str, path: str, query: Mapping[str, object], body: bytes = b"") -> Any:
        response = CollectedResponse()
        await _load_handler()(
            self._request_scope(method, path, query, len(body)), make_receive(body), response.send
        )
        content = await asyncio.to_thread(json.loads, response.body) if response.body else None
        if response.status >= 400:
            raise _refused_call(content)
        return content

    def _request_scope(
        self, method: str, path: str, query: Mapping[str, object], length: int
    ) -> dict[str, Any]:
        own_headers = [
            (name, value) for name, value in self.scope["headers"] if name.lower() not in BODY_HEADERS
        ]
        scope = {name: value for name, value in self.scope.items() if name not in (PENDING, "raw_path")}
        return {
            **scope,
            "method": method,
            "path": f"{self.root}api/v1{path}",
            "query_string": urlencode(query).encode(),
            "headers": [
                *own_headers,
                (b"accept", b"application/json"),
                (b"content-type", b"application/json"),
                (b"content-length", str(length).encode()),
            ],
        }


class CollectedResponse:
    """A response of an ASGI application, in memory."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()

    async def send(self, message: Any) -> None:
        """Take a message of the application."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", []))
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


def make_receive(body: bytes) -> Any:
    """Return an ASGI `receive` that has a body and then waits: the client stays until its request is cancelled."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await asyncio.Future()
        raise AssertionError("unreachable")

    return receive


_current_client: ContextVar[ApiClient] = ContextVar("devui_mcp_client")


def api_client() -> ApiClient:
    """Return the client of the request that is being answered."""
    return _current_client.get()


@contextmanager
def use_client(client: ApiClient) -> Iterator[None]:
    """Let tools use a client."""
    token = _current_client.set(client)
    try:
        yield
    finally:
        _current_client.reset(token)


def build_client(request: HttpRequest, scope: Mapping[str, Any]) -> ApiClient:
    """Return the client for a request to /mcp."""
    root = request.path.removesuffix("mcp")
    return ApiClient(scope, root, request.build_absolute_uri(get_script_prefix()))


@cache
def _load_handler() -> ASGIHandler:
    """Return Django's handler, which loads the middleware of the settings."""
    return ASGIHandler()


def _refused_call(content: Any) -> RefusedCall:
    problem = content if isinstance(content, dict) else {}
    detail = problem.get("detail", "The API gave no reason.")
    message = detail if isinstance(detail, str) else json.dumps(detail)[:2_000]
    return RefusedCall(message, hint=str(problem.get("hint", "")))
