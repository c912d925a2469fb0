"""A socket that repeats what it receives, and what a test sends to one."""

from __future__ import annotations

from typing import Any

from asgiref.testing import ApplicationCommunicator

OWN = [(b"host", b"127.0.0.1:8000"), (b"origin", b"http://127.0.0.1:8000")]
CONNECT = {"type": "websocket.connect"}


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """A socket that says again what it hears."""
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "websocket.send", "text": message["text"]})
            await send({"type": "websocket.send", "text": "again"})


def open_socket(
    headers: list[tuple[bytes, bytes]], app: Any, path: str, query: str = ""
) -> ApplicationCommunicator:
    """Return a socket of an application with these headers beside those of this site."""
    scope = {
        "type": "websocket",
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [*OWN, *headers],
    }
    return ApplicationCommunicator(app, scope)


async def answer_to(socket: ApplicationCommunicator, message: dict[str, Any]) -> Any:
    await socket.send_input(message)
    return await socket.receive_output(5)
