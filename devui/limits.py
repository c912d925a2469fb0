"""A limit on request bodies, counted as they come in: a missing Content-Length is no way around it."""

from __future__ import annotations

import json
from typing import Any

from devui.errors import too_large
from devui.origins import AsgiApp, AsgiScope


class BodyLimit:
    """ASGI wrapper that answers 413 to a request whose body exceeds `limit` bytes."""

    def __init__(self, app: AsgiApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        """Pass the request on while it is within the limit."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if _announced(scope) > self.limit:
            await _refuse(send)
            return
        received = 0

        async def counted() -> Any:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received <= self.limit:
                return message
            await _refuse(send)
            return {"type": "http.disconnect"}

        await self.app(scope, counted, send)


def _announced(scope: AsgiScope) -> int:
    for name, value in scope.get("headers", []):
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def _refuse(send: Any) -> None:
    problem = too_large()
    body = json.dumps(problem.body()).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
