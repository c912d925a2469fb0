"""Access to a runtime requires the token, and frames of its live socket are what ADK can read."""

from __future__ import annotations

from typing import Any

import pytest

from devui.runtime.asgi_middleware import LIVE_PATH, LiveFrameFilter, TokenGuard

TOKEN = (b"x-devui-token", b"secret")


async def sent_by(
    kind: str, headers: list[tuple[bytes, bytes]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what a guarded application was given, and what the guard sent itself."""
    reached: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        reached.append(scope)

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await TokenGuard(application, "secret")({"type": kind, "headers": headers, "client": None}, None, send)
    return reached, messages


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_a_request_with_the_token_comes_from_this_machine(kind):
    reached, messages = await sent_by(kind, [TOKEN])
    assert [scope["client"] for scope in reached] == [("127.0.0.1", 0)]
    assert messages == []


@pytest.mark.parametrize(
    "headers", [[], [(b"x-devui-token", b"")], [(b"x-devui-token", b"secret2")], [TOKEN, TOKEN]]
)
async def test_everything_else_is_refused_before_the_application(headers):
    reached, messages = await sent_by("http", headers)
    assert (reached, messages[0]["status"]) == ([], 403)
    reached, messages = await sent_by("websocket", headers)
    assert (reached, messages[0]["type"], messages[0]["code"]) == ([], "websocket.close", 1008)


async def test_the_application_starts_and_ends_without_a_token():
    reached, _ = await sent_by("lifespan", [])
    assert len(reached) == 1


async def test_live_frames_that_would_fill_the_runtime_are_dropped(caplog):
    many = '{"content": {"parts": [' + "{}," * 1_000_000 + "{}]}}"
    frames = [{"type": "websocket.receive", "text": text} for text in (many, "[", '{"close": true}')]
    reached: list[str] = []

    async def receive() -> dict[str, Any]:
        return frames.pop(0)

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        reached.append((await receive())["text"])

    await LiveFrameFilter(application)({"type": "websocket", "path": LIVE_PATH}, receive, None)
    assert reached == ['{"close": true}']
    assert "more than 1,000,000 values" in caplog.text
