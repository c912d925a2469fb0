"""ADK's paths answered for the apps of a remote server, as Python's own server answers them.

Sessions are read there and answered from their copies, so that clients get one form whatever the language; runs are
recorded; what is no matter of sessions is passed on.
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

from devui.remote import dialects
from devui.remote.dialects import Told
from devui.remote.http_client import Answer, Line, NotReached
from devui.remote.live_runs import LiveCall
from devui.remote.runs import RemoteRuns
from devui.remote.session_copies import Copies, says_missing
from devui.runtime.run_queue import LiveRun
from sessions_app import events, redaction, scopes
from sessions_app.agents.remotes import upstream_app_name
from sessions_app.api import snapshots
from sessions_app.errors import AlreadyExists, BadInput, DevUIError, SessionMissing, UpstreamFailed
from sessions_app.ids import SessionKey, check_ids
from sessions_app.models import AgentSession, Run
from sessions_app.paths import upstream_path
from sessions_app.runs import background, lifecycle
from sessions_app.store import units_of_work

SESSION_PARTS = 6
"""Parts of `/apps/{app}/users/{user}/sessions/{session}`."""

KEPT_FROM_RUNNING = (UpstreamFailed, NotReached, SessionMissing, BadInput)
"""Errors of DevUI's that a run ends with when no agent raised anything; their texts hold the way out."""

PASSED_ON = frozenset({"content-type", "accept"})


@dataclass(frozen=True, slots=True)
class Paths:
    """ADK's paths of one remote server."""

    line: Line
    copies: Copies
    runs: RemoteRuns

    async def answer(
        self, app_name: str, method: str, path: str, headers: Mapping[str, str], content: bytes
    ) -> httpx.Response:
        """Answer a request about an app. `path` is percent-encoded, with its query.

        What is refused is answered as ADK's server does: with a status and a `detail`.

        Raises:
            NotReached: the server does not answer.
        """
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        try:
            if parts == ["run"] or parts == ["run_sse"]:
                return await self._run(app_name, parts[0], _json(content))
            if parts[0] == "apps" and len(parts) == SESSION_PARTS - 1 and parts[4] == "sessions":
                return await self._sessions(app_name, parts[3], method, content)
            if parts[0] == "apps" and len(parts) == SESSION_PARTS and parts[4] == "sessions":
                key = SessionKey("", app_name, parts[3], parts[5])
                return await self._session(key, method, content)
            return await self._passed_on(app_name, method, path, headers, content)
        except (SessionMissing, AlreadyExists, BadInput, UpstreamFailed) as error:
            return _refusal(error)

    async def call(self, app_name: str, query: str) -> tuple[LiveCall, Run]:
        """Return a live run that waits for its turn, and its row.

        Raises:
            BadInput: the query names no session, or the server's ADK has no live runs.
            SessionMissing: the server has no such session.
        """
        if not self.copies.dialect.is_spoken_with:
            raise BadInput(
                f"{self.line.url} has no live runs: the ADK of its language has none.", hint="Send messages."
            )
        named = dict(parse_qsl(query))
        if "user_id" not in named or "session_id" not in named:
            raise BadInput("A live run needs user_id and session_id.", hint="Name both in the query.")
        key = SessionKey("", app_name, named["user_id"], named["session_id"].strip())
        session = await self._brought(key)
        run = await self._row(session, {"live": True})
        return LiveCall(self.line, self.copies, self.runs, key, query), run

    async def create(
        self, key: SessionKey, seeds: Mapping[str, Any], events: list[Any] | None = None
    ) -> SessionKey:
        """Create a session there, and its copy here. Return its key: some services choose the id themselves.

        Raises:
            AlreadyExists: there is one of this id.
            BadInput: the server refuses it, or cannot take events.
            UpstreamFailed: it fails.
        """
        check_ids(key)
        dialect = self.copies.dialect
        if events and not dialect.takes_events:
            raise BadInput(
                f"{self.line.url} cannot be given a session with its events: its ADK keeps neither their times nor"
                " what they asked for.",
                hint="Import it under an app of this server, where it can be read.",
            )
        await self._refuse_taken(key)
        path = upstream_path(upstream_app_name(key.app_name), key.user_id)
        body: dict[str, Any] = {"state": dict(seeds)} | ({"events": events} if events else {})
        if dialect.named_in_body:
            body["sessionId"] = key.session_id
        else:
            path += f"/{quote(key.session_id, safe='')}"
        answer = await self.line.ask("POST", path, body)
        if not answer.is_success:
            said = dialects.error_text(answer.body)
            if answer.status == AlreadyExists.status or "already exists" in said.lower():
                raise _taken(key)
            raise self.copies.refusal(answer)
        try:
            told = json.loads(answer.body)
        except ValueError as error:
            raise self.copies.strange(ValueError("it is no JSON")) from error
        return await self.copies.keep(key, told, seeds)

    async def _refuse_taken(self, key: SessionKey) -> None:
        """Refuse an id that is taken where the server would overwrite its session without a word."""
        try:
            await self.copies.catch_up(key)
        except SessionMissing:
            return
        raise _taken(key)

    async def _sessions(self, app_name: str, user_id: str, method: str, content: bytes) -> httpx.Response:
        if method == "POST":
            asked = _json(content) if content.strip() else {}
            asked = asked if isinstance(asked, dict) else {}
            name = asked.get("sessionId", asked.get("session_id")) or str(uuid.uuid4())
            key = SessionKey("", app_name, user_id, str(name).strip())
            return await _stored(await self.create(key, asked.get("state") or {}, asked.get("events")))
        listed = await self.copies.sessions(app_name, user_id)
        self.copies.follow(app_name, listed)
        answers = [
            {
                "id": told.id,
                "appName": app_name,
                "userId": told.user_id,
                "state": redaction.redact(told.state),
                "events": [],
                "lastUpdateTime": told.updated_at,
            }
            for told in listed
        ]
        return _answer(answers)

    async def _session(self, key: SessionKey, method: str, content: bytes) -> httpx.Response:
        if method == "GET":
            await self.copies.catch_up(key)
            return await _stored(key)
        if method == "POST":
            asked = _json(content) if content.strip() else {}
            return await _stored(await self.create(key, asked if isinstance(asked, dict) else {}))
        if method == "PATCH":
            return await self._patch(key, content)
        path = upstream_path(upstream_app_name(key.app_name), key.user_id, key.session_id)
        answer = await self.line.ask("DELETE", path)
        if not answer.is_success and not says_missing(answer):
            raise self.copies.refusal(answer)
        await self.copies.remove(key)
        return _answer(None)

    async def _patch(self, key: SessionKey, content: bytes) -> httpx.Response:
        if not self.copies.dialect.patches:
            raise BadInput(
                f"{self.line.url} has no way to change a session's state outside a run.",
                hint="Send the change with the next message: the console has a field for it.",
            )
        path = upstream_path(upstream_app_name(key.app_name), key.user_id, key.session_id)
        answer = await self.line.ask("PATCH", path, _json(content))
        if not answer.is_success:
            if answer.status == SessionMissing.status:
                raise SessionMissing("Session not found", hint=f"{self.line.url} has no session of this id.")
            raise self.copies.refusal(answer)
        await self.copies.catch_up(key)
        delta = _json(content)
        temp = scopes.split_delta(delta.get("stateDelta") or delta.get("state_delta") or {}).temp
        return await _stored(key, temp)

    async def _run(self, app_name: str, how: str, asked: Any) -> httpx.Response:
        """Run an agent as `/run` and `/run_sse` do: recorded, and cancelled when the client goes away."""
        folded = {str(name).replace("_", "").lower(): value for name, value in asked.items()}
        key = SessionKey("", app_name, str(folded.get("userid")), str(folded.get("sessionid")).strip())
        session = await self._brought(key)
        request = {
            "new_message": folded.get("newmessage"),
            "streaming": bool(folded.get("streaming")) and how == "run_sse",
            "state_delta": folded.get("statedelta"),
            "invocation_id": folded.get("invocationid"),
            "custom_metadata": folded.get("custommetadata"),
        }
        # What the server cannot be told is refused before a run is made of it.
        dialects.run_body(self.copies.dialect, app_name, *key[2:], request)
        run = await self._row(session, request)
        heard: asyncio.Queue[Told | None] = asyncio.Queue()
        live = self.runs.start(run, heard.put_nowait)
        if live.task is not None:
            live.task.add_done_callback(lambda task: heard.put_nowait(None))
        stream = _Stream(self.runs, live, heard)
        if how == "run_sse":
            return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=stream)
        try:
            events = [told async for told in stream.events()]
        finally:
            await stream.aclose()
        ended = await units_of_work.read(_ended, run.pk)
        if ended.status == Run.Status.FAILED:
            return _failed(ended)
        return _answer(events)

    async def _row(self, session: AgentSession, request: dict[str, Any]) -> Run:
        def create(run_id: str) -> Run:
            run = lifecycle.create_run(
                session.pk, request, lifecycle.ADK, self.runs.runtime_id, run_id=run_id
            )
            run.session = session
            return run

        return await background.row_of_caller(create)

    async def _brought(self, key: SessionKey) -> AgentSession:
        """Return the copy of a session, made if need be.

        Raises:
            SessionMissing: there is none, there or here.
        """
        session = await units_of_work.read(_find, key)
        if session is None:
            await self.copies.catch_up(key)
            session = await units_of_work.read(_find, key)
        if session is None:
            raise SessionMissing(f"Session not found: {key.session_id}", hint="Create it first.")
        return session

    async def _passed_on(
        self, app_name: str, method: str, path: str, headers: Mapping[str, str], content: bytes
    ) -> httpx.Response:
        there = path.replace(quote(app_name, safe=""), quote(upstream_app_name(app_name), safe=""), 1)
        kept = {name: value for name, value in headers.items() if name.lower() in PASSED_ON}
        answer = await self.line.ask(method, there, content=content, headers=kept)
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self.copies.refusal(answer)
        return httpx.Response(
            200 if answer.status == 204 else answer.status,
            headers={"Content-Type": answer.headers.get("content-type", "application/json")},
            content=_told(answer),
        )


class _Stream(httpx.AsyncByteStream):
    """The events of a run as ADK's `/run_sse` sends them. Who closes it before its end cancels the run."""

    def __init__(self, runs: RemoteRuns, live: LiveRun, heard: asyncio.Queue[Told | None]) -> None:
        self._runs = runs
        self._live = live
        self._heard = heard

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self.events():
            yield b"data: " + scopes.dumps(event).encode() + b"\n\n"
        ended = await units_of_work.read(_ended, self._live.id)
        if ended.status == Run.Status.FAILED:
            details = {
                "error_type": ended.error_type,
                "error_message": ended.error,
                "timestamp": ended.finished_at,
            }
            frame = {"error": f"{ended.error_type}: {ended.error}", "error_details": details}
            yield b"data: " + scopes.dumps(frame).encode() + b"\n\n"

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the events as they come, fit to be sent out."""
        while (told := await self._heard.get()) is not None:
            yield redaction.redact(events.without_internals(told.wire))

    async def aclose(self) -> None:
        """Cancel the run, unless it has ended."""
        await self._runs.cancel(self._live.id)


async def _stored(key: SessionKey, temp: dict[str, Any] | None = None) -> httpx.Response:
    """Answer a session from its copy."""
    snapshot = await units_of_work.read(
        snapshots.take_snapshot, key.app_name, key.user_id, key.session_id, temp
    )
    content = "".join([piece async for piece in snapshots.stream_json(snapshot)])
    return httpx.Response(200, headers={"Content-Type": "application/json"}, content=content.encode())


def _answer(body: Any, status: int = 200) -> httpx.Response:
    headers = {"Content-Type": "application/json"}
    return httpx.Response(status, headers=headers, content=scopes.dumps(body).encode())


def _refusal(error: DevUIError) -> httpx.Response:
    return _answer({"detail": error.message, "hint": error.hint, "code": error.code}, error.status)


def _failed(run: Run) -> httpx.Response:
    """Answer a run that failed: as Python's server does when the agent raised, else by what kept it from running."""
    kind = next((each for each in KEPT_FROM_RUNNING if each.__name__ == run.error_type), None)
    if kind is not None:
        return _refusal(kind(run.error))
    return _answer({"detail": f"{run.error_type}: {run.error}"}, 500)


def _told(answer: Answer) -> bytes:
    """Return an answer as Python's server would give it: `null` for nothing, `detail` for what an error says."""
    if answer.is_success:
        return answer.body or b"null"
    said = dialects.error_text(answer.body)
    return json.dumps(
        {"detail": said or f"The remote server answers {answer.status} without a word."}
    ).encode()


def _json(content: bytes) -> Any:
    try:
        return json.loads(content or b"null")
    except (ValueError, RecursionError) as error:
        raise BadInput("The body is no JSON.", hint="Send a JSON object.") from error


def _taken(key: SessionKey) -> AlreadyExists:
    return AlreadyExists(
        f"Session already exists: {key.session_id}",
        hint="Leave the id out to have one made, or delete it first.",
    )


def _find(key: SessionKey) -> AgentSession | None:
    return AgentSession.objects.filter(**key._asdict()).first()


def _ended(run_id: str) -> Run:
    return Run.objects.get(pk=run_id)
