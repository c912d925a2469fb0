"""ADK's paths for the apps of a remote server, answered like Python's own server.

Sessions are read from the server and answered from their copies, so that clients get one form for every language; runs
are recorded; all other requests are forwarded.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import httpx

from devui.remote.http_client import NotReached, RemoteHttpClient, RemoteResponse
from devui.remote.live_runs import LiveRunSocket
from devui.remote.responses import RemoteEvent, error_text
from devui.remote.runs import RemoteRuns
from devui.remote.session_copies import SessionCopies, is_session_missing
from devui.runtime.run_queue import ActiveRun
from sessions_app.agents.remotes import upstream_app_name
from sessions_app.api import snapshots
from sessions_app.paths import upstream_path
from sessions_app.runs import background, lifecycle
from sessions_app.runs.runtime_client import Sender
from sessions_app.store import events, redaction, scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import (
    AlreadyExists,
    BadInput,
    DevUIError,
    SessionMissing,
    UpstreamFailed,
)
from sessions_app.store.ids import check_ids
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.session_key import SessionKey
from sessions_app.store.text_input import parse_json

SESSION_PARTS = 6
"""Segments of `/apps/{app}/users/{user}/sessions/{session}`."""

START_ERRORS = (UpstreamFailed, NotReached, SessionMissing, BadInput)
"""Errors of DevUI that end a run without an exception of the agent; their texts contain the hint."""

FORWARDED_HEADERS = frozenset({"content-type", "accept"})


@dataclass(frozen=True, slots=True)
class AdkPaths:
    """ADK's paths of one remote server."""

    http: RemoteHttpClient
    copies: SessionCopies
    runs: RemoteRuns

    async def answer(
        self, app_name: str, method: str, path: str, headers: Mapping[str, str], content: bytes
    ) -> httpx.Response:
        """Answer a request about an app. `path` is percent-encoded, with its query.

        Refusals have the form of ADK's server: a status and a `detail`.
        """
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        try:
            if parts == ["run"] or parts == ["run_sse"]:
                return await self._run_agent(
                    app_name, parts[0], _parse_object(content), Sender.of(headers).person
                )
            if parts[0] == "apps" and len(parts) == SESSION_PARTS - 1 and parts[4] == "sessions":
                return await self._answer_session_list(app_name, parts[3], method, content)
            if parts[0] == "apps" and len(parts) == SESSION_PARTS and parts[4] == "sessions":
                key = SessionKey("", app_name, parts[3], parts[5])
                return await self._answer_session(key, method, content)
            return await self._forward_request(app_name, method, path, headers, content)
        except (SessionMissing, AlreadyExists, BadInput, UpstreamFailed) as error:
            return _error_response(error)

    async def call(self, app_name: str, query: str, person: str) -> tuple[LiveRunSocket, Run]:
        """Return a live run that waits for its turn, and its row. `person`: name of who starts it; empty: unknown.

        Raises:
            BadInput: the query names no session, or the server's ADK has no live runs.
            SessionMissing: the server has no such session.
        """
        if not self.copies.dialect.has_live_runs:
            raise BadInput(
                f"{self.http.url} has no live runs: ADK for its language does not have them.",
                hint="Send messages.",
            )
        query_values = dict(parse_qsl(query))
        if "user_id" not in query_values or "session_id" not in query_values:
            raise BadInput("A live run needs user_id and session_id.", hint="Name both in the query.")
        key = SessionKey("", app_name, query_values["user_id"], query_values["session_id"].strip())
        session = await self._ensure_copy(key)
        run = await self._create_run_row(session, {"live": True}, person)
        return LiveRunSocket(self.http, self.copies, self.runs, key, query), run

    async def create(
        self, key: SessionKey, seeds: Mapping[str, Any], events: list[Any] | None = None
    ) -> SessionKey:
        """Create a session on the server and its copy here. Return its key: some services assign the id themselves.

        Raises:
            AlreadyExists: a session with this id exists.
            BadInput: the server refuses it, or does not accept events.
            UpstreamFailed: the server fails.
        """
        check_ids(key)
        dialect = self.copies.dialect
        if events and not dialect.accepts_events:
            raise BadInput(
                f"{self.http.url} cannot create a session with events: its ADK stores neither their times nor"
                " their actions.",
                hint="Import it under an app of this server, where it can be read.",
            )
        await self._refuse_taken(key)
        path = upstream_path(upstream_app_name(key.app_name), key.user_id)
        body: dict[str, Any] = {"state": dict(seeds)} | ({"events": events} if events else {})
        if dialect.has_id_in_body:
            body["sessionId"] = key.session_id
        else:
            path += f"/{quote(key.session_id, safe='')}"
        answer = await self.http.ask("POST", path, body)
        if not answer.is_success:
            message = error_text(answer.body)
            if answer.status == AlreadyExists.status or "already exists" in message.lower():
                raise _already_exists(key)
            raise self.copies.refusal_error(answer)
        try:
            session = parse_json(answer.body)
        except (ValueError, RecursionError) as error:
            raise self.copies.malformed_error(ValueError("it is no JSON")) from error
        return await self.copies.copy_created(key, session, seeds)

    async def _refuse_taken(self, key: SessionKey) -> None:
        """Refuse an id that exists; some servers would overwrite the session silently."""
        try:
            await self.copies.catch_up(key)
        except SessionMissing:
            return
        raise _already_exists(key)

    async def _answer_session_list(
        self, app_name: str, user_id: str, method: str, content: bytes
    ) -> httpx.Response:
        if method == "POST":
            body = _parse_object(content)
            name = body.get("sessionId", body.get("session_id")) or str(uuid.uuid4())
            key = SessionKey("", app_name, user_id, str(name).strip())
            return await _session_response(
                await self.create(key, body.get("state") or {}, body.get("events"))
            )
        listed = await self.copies.sessions(app_name, user_id)
        self.copies.follow(app_name, listed)
        answers = [
            {
                "id": session.id,
                "appName": app_name,
                "userId": session.user_id,
                "state": redaction.redact(session.state),
                "events": [],
                "lastUpdateTime": session.updated_at,
            }
            for session in listed
        ]
        return _json_response(answers)

    async def _answer_session(self, key: SessionKey, method: str, content: bytes) -> httpx.Response:
        if method == "GET":
            await self.copies.catch_up(key)
            return await _session_response(key)
        if method == "POST":
            return await _session_response(await self.create(key, _parse_object(content)))
        if method == "PATCH":
            return await self._patch_state(key, content)
        path = upstream_path(upstream_app_name(key.app_name), key.user_id, key.session_id)
        answer = await self.http.ask("DELETE", path)
        if not answer.is_success and not is_session_missing(answer):
            raise self.copies.refusal_error(answer)
        await self.copies.remove(key)
        return _json_response(None)

    async def _patch_state(self, key: SessionKey, content: bytes) -> httpx.Response:
        if not self.copies.dialect.can_patch_state:
            raise BadInput(
                f"{self.http.url} cannot change a session's state outside a run.",
                hint="Send the change with the next message: the console has a field for it.",
            )
        path = upstream_path(upstream_app_name(key.app_name), key.user_id, key.session_id)
        body = _parse_object(content)
        answer = await self.http.ask("PATCH", path, body)
        if not answer.is_success:
            if answer.status == SessionMissing.status:
                raise SessionMissing("Session not found", hint=f"{self.http.url} has no session of this id.")
            raise self.copies.refusal_error(answer)
        await self.copies.catch_up(key)
        temp = scopes.split_delta(body.get("stateDelta") or body.get("state_delta") or {}).temp
        return await _session_response(key, temp)

    async def _run_agent(
        self, app_name: str, how: str, body: Mapping[str, Any], person: str
    ) -> httpx.Response:
        """Run an agent like `/run` and `/run_sse`: the run is recorded, and cancelled if the client disconnects."""
        folded = {str(name).replace("_", "").lower(): value for name, value in body.items()}
        key = SessionKey("", app_name, str(folded.get("userid")), str(folded.get("sessionid")).strip())
        session = await self._ensure_copy(key)
        request = {
            "new_message": folded.get("newmessage"),
            "streaming": bool(folded.get("streaming")) and how == "run_sse",
            "state_delta": folded.get("statedelta"),
            "invocation_id": folded.get("invocationid"),
            "custom_metadata": folded.get("custommetadata"),
        }
        # Unsupported options are refused before the run is created.
        self.copies.dialect.run_body(app_name, *key[2:], request)
        run = await self._create_run_row(session, request, person)
        incoming: asyncio.Queue[RemoteEvent | None] = asyncio.Queue()
        active = self.runs.start(run, incoming.put_nowait)
        if active.task is not None:
            active.task.add_done_callback(lambda task: incoming.put_nowait(None))
        stream = _Stream(self.runs, active, incoming)
        if how == "run_sse":
            return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=stream)
        try:
            events = [event async for event in stream.events()]
        finally:
            await stream.aclose()
        ended = await units_of_work.read(Run.objects.get, pk=run.pk)
        if ended.status == Run.Status.FAILED:
            return _failed_run_response(ended)
        return _json_response(events)

    async def _create_run_row(self, session: AgentSession, request: dict[str, Any], person: str) -> Run:
        def create(run_id: str) -> Run:
            run = lifecycle.create_run(
                session.pk,
                request,
                lifecycle.ADK_SOURCE,
                self.runs.runtime_id,
                person=person,
                run_id=run_id,
            )
            run.session = session
            return run

        return await background.create_callers_row(create)

    async def _ensure_copy(self, key: SessionKey) -> AgentSession:
        """Return the copy of a session, created if necessary.

        Raises:
            SessionMissing: the session exists neither there nor here.
        """
        find = AgentSession.objects.filter(**key._asdict()).first
        session = await units_of_work.read(find)
        if session is None:
            await self.copies.catch_up(key)
            session = await units_of_work.read(find)
        if session is None:
            raise SessionMissing(f"Session not found: {key.session_id}", hint="Create it first.")
        return session

    async def _forward_request(
        self, app_name: str, method: str, path: str, headers: Mapping[str, str], content: bytes
    ) -> httpx.Response:
        upstream = path.replace(quote(app_name, safe=""), quote(upstream_app_name(app_name), safe=""), 1)
        forwarded_headers = {
            name: value for name, value in headers.items() if name.lower() in FORWARDED_HEADERS
        }
        answer = await self.http.ask(method, upstream, content=content, headers=forwarded_headers)
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self.copies.refusal_error(answer)
        return httpx.Response(
            200 if answer.status == 204 else answer.status,
            headers={"Content-Type": answer.headers.get("content-type", "application/json")},
            content=_forwarded_body(answer),
        )


class _Stream(httpx.AsyncByteStream):
    """The events of a run in the form of ADK's `/run_sse`. Closing it before its end cancels the run."""

    def __init__(
        self, runs: RemoteRuns, active: ActiveRun, incoming: asyncio.Queue[RemoteEvent | None]
    ) -> None:
        self._runs = runs
        self._live = active
        self._incoming = incoming

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self.events():
            yield b"data: " + scopes.dumps(event).encode() + b"\n\n"
        ended = await units_of_work.read(Run.objects.get, pk=self._live.id)
        if ended.status == Run.Status.FAILED:
            details = {
                "error_type": ended.error_type,
                "error_message": ended.error,
                "timestamp": ended.finished_at,
            }
            frame = {"error": f"{ended.error_type}: {ended.error}", "error_details": details}
            yield b"data: " + scopes.dumps(frame).encode() + b"\n\n"

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the events as they arrive, redacted."""
        while (event := await self._incoming.get()) is not None:
            yield redaction.redact(events.without_internals(event.wire))

    async def aclose(self) -> None:
        """Cancel the run, unless it has ended."""
        await self._runs.cancel(self._live.id)


async def _session_response(key: SessionKey, temp: dict[str, Any] | None = None) -> httpx.Response:
    """Return a session from its copy."""
    snapshot = await units_of_work.read(
        snapshots.take_snapshot, key.app_name, key.user_id, key.session_id, temp
    )
    content = "".join([piece async for piece in snapshots.stream_json(snapshot)])
    return httpx.Response(200, headers={"Content-Type": "application/json"}, content=content.encode())


def _json_response(body: Any, status: int = 200) -> httpx.Response:
    headers = {"Content-Type": "application/json"}
    return httpx.Response(status, headers=headers, content=scopes.dumps(body).encode())


def _error_response(error: DevUIError) -> httpx.Response:
    return _json_response({"detail": error.message, "hint": error.hint, "code": error.code}, error.status)


def _failed_run_response(run: Run) -> httpx.Response:
    """Return the response for a failed run: Python's form if the agent raised, else that of the preventing error."""
    kind = next((error_class for error_class in START_ERRORS if error_class.__name__ == run.error_type), None)
    if kind is not None:
        return _error_response(kind(run.error))
    return _json_response({"detail": f"{run.error_type}: {run.error}"}, 500)


def _forwarded_body(answer: RemoteResponse) -> bytes:
    """Return a body as Python's server sends it: `null` for an empty one, `detail` for the message of an error."""
    if answer.is_success:
        return answer.body or b"null"
    message = error_text(answer.body)
    return json.dumps(
        {"detail": message or f"The remote server answered {answer.status} without a message."}
    ).encode()


def _parse_object(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content.strip() or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadInput("The body is not JSON.", hint="Send a JSON object.") from error
    return body if isinstance(body, dict) else {}


def _already_exists(key: SessionKey) -> AlreadyExists:
    return AlreadyExists(
        f"Session already exists: {key.session_id}",
        hint="Leave the id out to have one made, or delete it first.",
    )
