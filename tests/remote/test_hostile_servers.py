"""Remote servers that are off, wrong, slow or malicious: clear errors, bounded reads, no other host is called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from devui.remote.address import RemoteAddress
from devui.remote.http_client import NotReached, RemoteHttpClient
from sessions_app.agents import remotes
from sessions_app.external import session_creation
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event
from sessions_app.store.session_key import SessionKey
from tests.pages.html import parse
from tests.ports import find_free_port
from tests.remote.conftest import (
    connect_runtimes,
    serve_remote,
    start_run,
    the_session,
    wait_for_end,
)
from tests.remote.synthetic_servers import JavaScript
from tests.web import serve

SESSIONS = "/apps/clerk@far/users/ann/sessions"


def answering(*answers: tuple[str, Any]) -> Starlette:
    """Return a server with these paths and answers."""

    def route(path: str, answer: Any) -> Route:
        async def endpoint(request: Request) -> Response:
            return answer(request) if callable(answer) else JSONResponse(answer)

        return Route(path, endpoint, methods=["GET", "POST", "PATCH", "DELETE"])

    return Starlette(routes=[route(*each) for each in answers])


async def test_unreachable_server_is_shown_and_detected_when_it_starts(store, web):
    port = find_free_port()
    remote = JavaScript()
    async with connect_runtimes(f"far=http://127.0.0.1:{port}") as runtimes:
        [status] = remotes.all_remotes()
        assert status.problem.startswith(
            f"http://127.0.0.1:{port} cannot be reached: the connection was refused."
        )
        assert (await web.get("/list-apps")).json() == []
        home = await web.get("/")
        assert home.status_code == 200
        assert "the connection was refused" in home.text
        response = await web.get(SESSIONS)
        assert (response.status_code, response.json()["code"]) == (503, "runtime_unavailable")
        async with serve(remote.app()) as address:
            server = runtimes.servers["far"]
            server.http.base = f"http://{address}"
            assert (await server.check()).problem == ""
        assert (await web.get("/list-apps")).json() == ["clerk@far"]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([], "is not an ADK server: /list-apps answered 404"),
        ([("/list-apps", lambda request: Response("<html>hello</html>"))], "is not a list of names"),
        ([("/list-apps", {"apps": [{"name": 7}]})], "is not a list of names"),
        ([("/list-apps", 7)], "is not a list of names"),
        ([("/list-apps", lambda request: Response(status_code=500))], "/list-apps answered 500"),
        ([("/list-apps", lambda request: Response(status_code=401))], "it requires a login"),
        ([("/list-apps", lambda request: RedirectResponse("http://127.0.0.1:1/"))], "redirects (307)"),
        ([("/list-apps", lambda request: Response(b"[" * 100_000))], "is not a list of names"),
    ],
)
async def test_response_of_another_server_is_explained(store, answers, why):
    async with serve_remote(answering(*answers)):
        [remote] = remotes.all_remotes()
        assert why in remote.problem
        assert remote.apps == ()


@pytest.mark.soak
async def test_a_redirect_is_never_followed(store, web):
    called = []

    def secret(request: Request) -> Response:
        called.append(request.url.path)
        return JSONResponse({"secret": 1})

    async with serve(answering(("/{path:path}", secret))) as inside:
        remote = JavaScript()
        async with serve_remote(remote.app()) as runtimes:
            await web.post(SESSIONS, json={"sessionId": "s1"})
            server = runtimes.servers["far"]
            async with serve(
                answering(("/{path:path}", lambda r: RedirectResponse(f"http://{inside}/x")))
            ) as other:
                server.http.base = f"http://{other}"
                answer = await web.get(f"{SESSIONS}/s1")
                run = await wait_for_end(await start_run(web, (await the_session()).pk, "hello"))
        assert answer.status_code == 503
        assert "redirects are not followed" in answer.json()["detail"]
        assert (run.status, run.error_type) == ("failed", "NotReached")
    assert called == []


async def test_credentials_are_sent_but_never_shown(store, web, caplog):
    authorizations = []

    def apps(request: Request) -> Response:
        authorizations.append(request.headers.get("authorization", ""))
        return JSONResponse(["clerk"]) if len(authorizations) == 1 else Response(status_code=401)

    async with (
        serve(answering(("/list-apps", apps))) as address,
        connect_runtimes(f"far=http://ann:hunter2@{address}") as runtimes,
    ):
        assert runtimes.servers["far"].remote.apps == ("clerk",)
        remote = await runtimes.servers["far"].check()
        assert authorizations[0].startswith("Basic ")
        home = (await web.get("/")).text
        listed = (await web.get("/agents/clerk@far/")).text
    for text in (remote.problem, remote.url, home, listed, caplog.text):
        assert "hunter2" not in text


@asynccontextmanager
async def raw(answer: bytes) -> AsyncIterator[str]:
    """Serve bytes to whoever connects."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_server_of_another_protocol_is_explained(store):
    async with raw(b"SSH-2.0-OpenSSH_9.6\r\n") as address, connect_runtimes(f"far=http://{address}"):
        assert "does not speak HTTP" in remotes.all_remotes()[0].problem


async def read_stream(line: RemoteHttpClient) -> None:
    async with line.open("GET", "/run_sse") as response:
        async for _ in line.lines(response, max_bytes=10_000):
            pass


@pytest.mark.parametrize("body", [b"x" * 50_000, b"x\n" * 25_000])
async def test_endless_response_is_refused(body):
    async def forever() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)  # others have their turn, too: whoever closes the connection is heard
            yield body

    def endless(request: Request) -> Response:
        return StreamingResponse(forever(), media_type="text/event-stream")

    async with serve(answering(("/{path:path}", endless))) as address:
        line = RemoteHttpClient(RemoteAddress("far", f"http://{address}"))
        with pytest.raises(NotReached, match="which is the limit"):
            await line.ask("GET", "/list-apps", max_bytes=100_000)
        if b"\n" not in body:
            with pytest.raises(NotReached, match="which is the limit"):
                await read_stream(line)
        await line.close()


def streaming(*frames: bytes) -> Any:
    async def send() -> AsyncIterator[bytes]:
        for frame in frames:
            yield frame

    return lambda request: StreamingResponse(send(), media_type="text/event-stream")


EVENT = {
    "id": "e1",
    "invocationId": "i1",
    "author": "clerk",
    "timestamp": 1.5,
    "content": {"parts": [{"text": "hi"}]},
}
GOOD = b"data: " + json.dumps(EVENT).encode() + b"\n\n"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("frames", "why", "event_count"),
    [
        ([GOOD, b"data: {nonsense\n\n"], "a frame cannot be parsed", 1),
        ([GOOD, b"data: 7\n\n"], "a frame is an object", 1),
        ([GOOD, b"data: " + b"[" * 200_000 + b"\n\n"], "nested too deeply", 1),
        ([GOOD, b'data: {"error": "Quota: all gone"}\n\n'], "all gone", 1),
        ([b'data: {"author": "clerk", "content": "not content", "actions": 7}\n\n'], "", 1),
        ([b": nothing\n\n", b"data:\n\n", b"data: null\n\n"], "", 0),
    ],
)
async def test_malformed_stream_fails_the_run_and_keeps_earlier_events(store, web, frames, why, event_count):
    stored = {
        "id": "s1",
        "appName": "clerk",
        "userId": "ann",
        "state": {},
        "events": [EVENT][:event_count],
        "lastUpdateTime": 2,
    }
    if b'"actions": 7' in frames[0]:
        stored["events"] = []
    remote = answering(
        ("/list-apps", ["clerk"]),
        ("/apps/clerk/users/ann/sessions/s1", stored),
        ("/run_sse", streaming(*frames)),
    )
    async with serve_remote(remote):
        await web.get(f"{SESSIONS}/s1")
        run = await wait_for_end(await start_run(web, (await the_session()).pk, "hello"))
        assert run.status == ("failed" if why else "done"), run.error
        assert why in run.error
        assert await units_of_work.read(Event.objects.count) == event_count
        assert (await web.get("/")).status_code == 200


@pytest.mark.parametrize("answer", [{"id": 7}, [], {"id": "s1", "userId": "ann", "events": 7}, "text", None])
async def test_malformed_session_is_refused_and_not_copied(store, web, answer):
    remote = answering(("/list-apps", ["clerk"]), ("/apps/clerk/users/ann/sessions/s1", answer))
    async with serve_remote(remote):
        response = await web.get(f"{SESSIONS}/s1")
        assert (response.status_code, response.json()["code"]) == (502, "upstream_failed")
        assert "sent a response that is not an ADK server's" in response.json()["detail"]


async def test_ids_never_lead_to_other_paths_of_the_server(store, web):
    remote = JavaScript()
    async with serve_remote(remote.app()):
        for user in ("..", "a%2Fb", "."):
            assert (await web.get(f"/apps/clerk@far/users/{user}/sessions")).status_code in {400, 404}
        assert (await web.get("/apps/nobody@far/users/ann/sessions")).status_code == 404
        assert (
            await web.get("/apps/clerk@nowhere/users/ann/sessions")
        ).status_code == 200  # nobody: rows answer
    assert set(remote.calls) <= {"GET /apps/clerk/users/user/sessions"}  # asked when the server was met


@pytest.mark.soak
async def test_html_error_page_is_not_shown(store, web):
    page = Response("<html><script>alert(1)</script></html>", 500)
    remote = answering(("/list-apps", ["clerk"]), ("/apps/{path:path}", lambda request: page))
    async with serve_remote(remote):
        response = await web.get(f"{SESSIONS}/s1")
        assert response.json()["detail"].endswith("answers 500: without an explanation")


async def test_malformed_frame_fails_the_run_and_keeps_earlier_events(store, web):
    stored = {
        "id": "s1",
        "appName": "clerk",
        "userId": "ann",
        "state": {},
        "events": [EVENT],
        "lastUpdateTime": 2,
    }
    remote = answering(
        ("/list-apps", ["clerk"]),
        ("/apps/clerk/users/ann/sessions/s1", stored),
        ("/run_sse", streaming(GOOD, b"data: {nonsense\n\n")),
    )
    async with serve_remote(remote):
        await web.get(f"{SESSIONS}/s1")
        run = await wait_for_end(await start_run(web, (await the_session()).pk, "hello"))
        assert (run.status, run.error_type) == ("failed", "UpstreamFailed")
        assert await units_of_work.read(Event.objects.count) == 1


async def test_session_id_assigned_by_the_server_is_used(store, web):
    session = {
        "id": "its-own",
        "appName": "clerk",
        "userId": "ann",
        "state": {"n": 1},
        "events": [],
        "lastUpdateTime": 2,
    }
    missing = Response("Session not found", 404)
    remote = answering(
        ("/list-apps", ["clerk"]),
        ("/apps/clerk/users/ann/sessions/its-own", session),
        (
            "/apps/clerk/users/ann/sessions/{name}",
            lambda r: missing if r.method == "GET" else JSONResponse(session),
        ),
    )
    async with serve_remote(remote):
        created = await web.post(SESSIONS, json={"sessionId": "wanted", "state": {"n": 1}})
        assert (created.status_code, created.json()["id"]) == (200, "its-own"), created.text
        assert (await the_session()).session_id == "its-own"
        key = SessionKey("", "clerk@far", "ann", "another")
        assert (await sync_to_async(session_creation.create_session)(key, {})).session_id == "its-own"


EMPTY = {"id": "s1", "appName": "clerk", "userId": "ann", "state": {}, "events": [], "lastUpdateTime": 2}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"{SESSIONS}/s1", None),
        ("GET", SESSIONS, None),
        ("POST", SESSIONS, {"sessionId": "s2"}),
        ("GET", f"{SESSIONS}/s1/artifacts", None),
    ],
)
async def test_server_failure_is_reported_as_upstream_failure(store, web, method, path, body):
    broken = Response('{"detail": "the disk is full"}', 500, media_type="application/json")
    remote = answering(("/list-apps", ["clerk"]), ("/apps/{path:path}", lambda request: broken))
    async with serve_remote(remote) as runtimes:
        response = await web.request(method, path, json=body)
        url = runtimes.servers["far"].http.url
    assert (response.status_code, response.json()["code"]) == (502, "upstream_failed")
    assert response.json()["detail"] == f"Remote server 'far' ({url}) answers 500: the disk is full"
    assert "The server's log has the cause." in response.json()["hint"]


async def test_run_that_cannot_start_reports_the_server_failure(store, web):
    broken = Response("out of memory", 503, media_type="text/plain")
    remote = answering(
        ("/list-apps", ["clerk"]),
        ("/apps/clerk/users/ann/sessions/s1", EMPTY),
        ("/run_sse", lambda request: broken),
    )
    body = {
        "appName": "clerk@far",
        "userId": "ann",
        "sessionId": "s1",
        "newMessage": {"parts": [{"text": "hi"}]},
    }
    async with serve_remote(remote):
        await web.get(f"{SESSIONS}/s1")
        response = await web.post("/run", json=body)
        run = await wait_for_end(await start_run(web, (await the_session()).pk, "hello"))
    assert (response.status_code, response.json()["code"]) == (502, "upstream_failed")
    assert "answers 503: out of memory" in response.json()["detail"]
    assert (run.status, run.error_type) == ("failed", "UpstreamFailed")
    assert "Remote server 'far'" in run.error


async def test_home_page_reports_changed_remote_agents(store, web):
    asks = {"HX-Request": "true", "HX-Target": "remotes"}
    apps: list[str] = ["clerk"]
    remote = answering(("/list-apps", lambda request: JSONResponse(apps)))
    async with serve_remote(remote) as runtimes:
        home = parse((await web.get("/")).content)
        address = home.one("section", css="remotes").attrs["hx-get"]
        same = (await web.get(address, headers=asks)).text
        apps.append("office")
        await runtimes.servers["far"].check()
        other = (await web.get(address, headers=asks)).text
        runtimes.servers["far"].http.base = "http://127.0.0.1:1"
        await runtimes.servers["far"].check()
        page_text = (await web.get(address, headers=asks)).text
    assert "1 agent" in same
    assert "show them" not in same
    assert "2 agents" in other
    assert "Their agents have changed: show them" in other
    assert "the connection was refused" in page_text
    assert "<html" not in same + other + page_text


async def test_run_reports_lost_server(store, web):
    remote = answering(("/list-apps", ["clerk"]), ("/apps/clerk/users/ann/sessions/s1", EMPTY))
    body = {
        "appName": "clerk@far",
        "userId": "ann",
        "sessionId": "s1",
        "newMessage": {"parts": [{"text": "hi"}]},
    }
    async with serve_remote(remote) as runtimes:
        await web.get(f"{SESSIONS}/s1")
        runtimes.servers["far"].http.base = "http://127.0.0.1:1"
        response = await web.post("/run", json=body)
    assert (response.status_code, response.json()["code"]) == (503, "runtime_unavailable")
    assert "the connection was refused" in response.json()["detail"]
