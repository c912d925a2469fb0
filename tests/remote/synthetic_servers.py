"""Synthetic servers that answer as the ADKs of Go, Java, JavaScript and Rust do: their paths, spelling, times, framing.

None of these runs that language. What they answer was written after the sources of adk-go (`server/adkrest`), adk-java
(`dev/…/web/controller`), adk-js (`dev/src/server/adk_api_server.ts`) and adk-rust (`adk-server/src/rest`). One agent
stands behind all of them, `clerk`, which does what the message says: `book CITY`, `leave`, `fail`, `wait`, `hello`.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

START = 1_750_000_000.0
"""Epoch seconds at which the clock of every server starts; each event is a quarter of a second later."""


@dataclass
class SessionRecord:
    """A session as the server keeps it; events in Python's wire form, which each language spells anew."""

    id: str
    user_id: str
    state: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    updated_at: float = START


class Synthetic:
    """One server, with the bodies of its runs. `went_away` is set when a client closes the stream of `wait`."""

    prefix = ""
    version: dict[str, str] | None = None
    headers: dict[str, str] = {}

    def __init__(self) -> None:
        self.sessions: dict[str, SessionRecord] = {}
        self.run_bodies: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.waits = asyncio.Event()
        self.went_away = asyncio.Event()
        self._ticks = 0

    def app(self) -> Starlette:
        """Return the server as an ASGI application."""
        of_user = "/apps/{app}/users/{user}/sessions"
        routes = [
            Route("/list-apps", self.list_apps),
            Route(of_user, self.list_sessions, methods=["GET"]),
            Route(of_user, self.create, methods=["POST"]),
            Route(of_user + "/{id}", self.get, methods=["GET"]),
            Route(of_user + "/{id}", self.create, methods=["POST"]),
            Route(of_user + "/{id}", self.delete, methods=["DELETE"]),
            Route("/run_sse", self.run_sse, methods=["POST"]),
        ]
        if self.version is not None:
            routes.append(Route("/version", self.tell_version))
        return Starlette(routes=[Mount(self.prefix, routes=routes)] if self.prefix else routes)

    # What languages do otherwise

    def spell(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event as the language spells it."""
        return event

    def session(self, record: SessionRecord, *, with_events: bool = True) -> dict[str, Any]:
        """Return a session as the language spells it."""
        events = [self.spell(event) for event in record.events] if with_events else []
        session_fields = {
            "id": record.id,
            "appName": "clerk",
            "userId": record.user_id,
            "state": record.state,
        }
        return {**session_fields, "events": events, "lastUpdateTime": record.updated_at}

    def listed(self, sessions: list[dict[str, Any]]) -> Any:
        """Return how sessions are listed."""
        return sessions

    def missing(self, what: str) -> Response:
        """Answer that there is no such session."""
        return JSONResponse({"error": f"Session not found: {what}"}, 404, self.headers)

    def deleted(self) -> Response:
        """Answer that a session is gone."""
        return Response(status_code=204)

    def frame(self, event: dict[str, Any]) -> str:
        """Return a frame of a stream."""
        return f"data: {json.dumps(event)}\n\n"

    def failure(self, message: str) -> str:
        """Return what the stream says of an error, or nothing."""
        return f"data: {json.dumps({'error': message})}\n\n"

    def new_id(self) -> str:
        """Return an id of an event."""
        return str(uuid.uuid4())

    def refused(self, body: dict[str, Any]) -> Response | None:
        """Refuse a run for its body."""
        return None

    # Paths

    async def list_apps(self, request: Request) -> Response:
        return JSONResponse(["clerk"], headers=self.headers)

    async def tell_version(self, request: Request) -> Response:
        return JSONResponse(self.version, headers=self.headers)

    async def list_sessions(self, request: Request) -> Response:
        self.calls.append(f"GET {request.url.path}")
        mine = [record for record in self.sessions.values() if record.user_id == request.path_params["user"]]
        listed = self.listed([self.session(record, with_events=False) for record in mine])
        return JSONResponse(listed, headers=self.headers)

    async def create(self, request: Request) -> Response:
        self.calls.append(f"POST {request.url.path}")
        body = await request.body()
        state = (json.loads(body) if body else {}).get("state") or {}
        name = request.path_params.get("id") or str(uuid.uuid4())
        record = self.sessions[name] = SessionRecord(
            name, request.path_params["user"], dict(state), updated_at=self.tick()
        )
        return JSONResponse(self.session(record), headers=self.headers)

    async def get(self, request: Request) -> Response:
        record = self.sessions.get(request.path_params["id"])
        if record is None:
            return self.missing(request.path_params["id"])
        return JSONResponse(self.session(record), headers=self.headers)

    async def delete(self, request: Request) -> Response:
        if self.sessions.pop(request.path_params["id"], None) is None:
            return self.missing(request.path_params["id"])
        return self.deleted()

    async def run_sse(self, request: Request) -> Response:
        body = await request.json()
        self.run_bodies.append(body)
        if (refusal := self.refused(body)) is not None:
            return refusal
        record = self.sessions.get(body["sessionId"])
        if record is None:
            return self.missing(body["sessionId"])
        return StreamingResponse(
            self.stream(record, body), media_type="text/event-stream", headers=self.headers
        )

    async def stream(self, record: SessionRecord, body: dict[str, Any]) -> AsyncIterator[str]:
        try:
            async for event in self.turn(record, body):
                yield self.frame(self.spell(event))
        except ValueError as error:
            yield self.failure(str(error))
        except asyncio.CancelledError:
            self.went_away.set()
            raise

    # The agent

    async def turn(self, record: SessionRecord, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Take a turn: store the message and each event, and yield what a client is told."""
        invocation = f"e-{uuid.uuid4()}"
        message = body["newMessage"]
        self.store(record, self.event(invocation, "user", message["parts"], body.get("stateDelta") or {}))
        words = next((part["text"] for part in message["parts"] if part.get("text")), "").split()
        if words[:1] == ["book"]:
            async for event in self.book(record, invocation, words[1]):
                yield event
        if words[:1] == ["leave"]:
            call = {"functionCall": {"id": "c9", "name": "leave", "args": {"days": 3}}}
            yield self.store(record, self.event(invocation, "clerk", [call]) | {"longRunningToolIds": ["c9"]})
            return
        if words[:1] == ["wait"]:
            yield self.event(invocation, "clerk", [{"text": "Wai"}]) | {"partial": True}
            self.waits.set()
            await asyncio.Event().wait()
        if body.get("streaming"):
            for piece in ("Do", "ne."):
                yield self.event(invocation, "clerk", [{"text": piece}]) | {"partial": True}
        if words[:1] == ["fail"]:
            raise ValueError("kaput")
        yield self.store(record, self.event(invocation, "clerk", [{"text": "Done."}]))

    async def book(self, record: SessionRecord, invocation: str, city: str) -> AsyncIterator[dict[str, Any]]:
        """Call a tool and store its answer, with what it writes to the state."""
        call = {"functionCall": {"id": "c1", "name": "book", "args": {"city": city}}}
        yield self.store(record, self.event(invocation, "clerk", [call]))
        answer = {"functionResponse": {"id": "c1", "name": "book", "response": {"status": "ok"}}}
        delta = {"city": city, "user:home": city}
        yield self.store(record, self.event(invocation, "clerk", [answer], delta))

    def event(
        self, invocation: str, author: str, parts: list[dict[str, Any]], delta: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        role = "user" if author == "user" else "model"
        return {
            "id": self.new_id(),
            "invocationId": invocation,
            "author": author,
            "timestamp": self.tick(),
            "content": {"role": role, "parts": parts},
            "actions": {"stateDelta": dict(delta or {}), "artifactDelta": {}},
        }

    def store(self, record: SessionRecord, event: dict[str, Any]) -> dict[str, Any]:
        record.events.append(event)
        record.state.update(event["actions"]["stateDelta"])
        record.updated_at = event["timestamp"]
        return event

    def tick(self) -> float:
        self._ticks += 1
        return START + self._ticks / 4


class Go(Synthetic):
    """adk-go: `/api`, no times in events, nulls, whole seconds, 500 for what is missing, unknown fields refused."""

    prefix = "/api"
    version = {"version": "0.5.0", "language": "go", "language_version": "go1.26"}

    def spell(self, event: dict[str, Any]) -> dict[str, Any]:
        timeless = {key: value for key, value in event.items() if key != "timestamp"}
        return {"groundingMetadata": None, "usageMetadata": None, **timeless}

    def session(self, record: SessionRecord, *, with_events: bool = True) -> dict[str, Any]:
        return super().session(record, with_events=with_events) | {"lastUpdateTime": int(record.updated_at)}

    def listed(self, sessions: list[dict[str, Any]]) -> Any:
        return sessions or None

    def missing(self, what: str) -> Response:
        return PlainTextResponse(f"session {what} not found\n", 500)

    def deleted(self) -> Response:
        return Response(status_code=200)

    def failure(self, message: str) -> str:
        return f"event: error\ndata: {json.dumps({'error': message})}\n\n"

    def refused(self, body: dict[str, Any]) -> Response | None:
        known_fields = {"appName", "userId", "sessionId", "newMessage", "streaming", "stateDelta"}
        if unknown := sorted(body.keys() - known_fields):
            return PlainTextResponse(f'failed to decode request: json: unknown field "{unknown[0]}"\n', 400)
        return None


class Java(Synthetic):
    """adk-java: times in whole milliseconds, a sentinel for removed keys, frames without a space, no `/version`."""

    def spell(self, event: dict[str, Any]) -> dict[str, Any]:
        actions = event["actions"] | {"deletedArtifactIds": [], "endOfAgent": False}
        return event | {"timestamp": int(event["timestamp"] * 1000), "actions": actions}

    def missing(self, what: str) -> Response:
        body = {
            "timestamp": "2025-06-15T12:00:00.000+00:00",
            "status": 404,
            "error": "Not Found",
            "path": "/apps",
        }
        return JSONResponse(body, 404)

    def frame(self, event: dict[str, Any]) -> str:
        return f"data:{json.dumps(event)}\n\n"

    def store(self, record: SessionRecord, event: dict[str, Any]) -> dict[str, Any]:
        super().store(record, event)
        if event["actions"]["stateDelta"].get("city") == "nowhere":
            event["actions"]["stateDelta"]["city"] = "__ADK_SENTINEL_REMOVED__"
            del record.state["city"]
        return event

    def failure(self, message: str) -> str:
        raise RuntimeError(message)  # Spring breaks the stream off


class JavaScript(Synthetic):
    """adk-js: Express, times in milliseconds, ids of eight characters, an object of sessions, `{"error"}`."""

    headers = {"X-Powered-By": "Express"}

    def spell(self, event: dict[str, Any]) -> dict[str, Any]:
        body = {"longRunningToolIds": [], **event, "timestamp": int(event["timestamp"] * 1000)}
        body["actions"] = {**event["actions"], "requestedAuthConfigs": {}, "requestedToolConfirmations": {}}
        return body

    def session(self, record: SessionRecord, *, with_events: bool = True) -> dict[str, Any]:
        return super().session(record, with_events=with_events) | {
            "lastUpdateTime": int(record.updated_at * 1000)
        }

    def listed(self, sessions: list[dict[str, Any]]) -> Any:
        return {"sessions": [session | {"state": {}} for session in sessions]}

    def new_id(self) -> str:
        return uuid.uuid4().hex[:8]


class Rust(Synthetic):
    """adk-rust: `/api`, snake_case, untagged parts, times as text, comments in the stream, silent ends, empty 404s."""

    prefix = "/api"
    version = {"version": "0.3.0", "language": "rust", "language_version": "1.89"}

    def spell(self, event: dict[str, Any]) -> dict[str, Any]:
        moment = datetime.fromtimestamp(event["timestamp"], UTC).isoformat()
        parts = [_without_tags(part) for part in event["content"]["parts"]]
        return {
            "id": event["id"],
            "timestamp": moment,
            "invocation_id": event["invocationId"],
            "branch": "",
            "author": event["author"],
            "content": {"role": event["content"]["role"], "parts": parts},
            "partial": bool(event.get("partial")),
            "turn_complete": False,
            "interrupted": False,
            "actions": {
                "state_delta": event["actions"]["stateDelta"],
                "artifact_delta": {},
                "skip_summarization": False,
                "transfer_to_agent": None,
            },
            "long_running_tool_ids": event.get("longRunningToolIds", []),
        }

    def session(self, record: SessionRecord, *, with_events: bool = True) -> dict[str, Any]:
        return super().session(record) | {"lastUpdateTime": int(record.updated_at)}

    def missing(self, what: str) -> Response:
        return Response(status_code=404)

    def frame(self, event: dict[str, Any]) -> str:
        return f": keep-alive\n\ndata: {json.dumps(event)}\n\n"

    def failure(self, message: str) -> str:
        return ""


def _without_tags(part: dict[str, Any]) -> dict[str, Any]:
    if call := part.get("functionCall"):
        return {"name": call["name"], "args": call["args"], "id": call["id"], "thought_signature": None}
    if answer := part.get("functionResponse"):
        return {
            "functionResponse": {"name": answer["name"], "response": answer["response"]},
            "id": answer["id"],
        }
    return part
