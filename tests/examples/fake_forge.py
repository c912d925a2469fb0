"""A server on loopback with the parts of the APIs of GitHub and GitLab that deploy/ci asks for."""

from __future__ import annotations

import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN, JOB_TOKEN = "a-secret-token", "a-job-token"
BOT = {"login": "github-actions[bot]", "id": 7}
NEVER, HALF, HALF_JSON, HALF_ZIP = "never answers", "breaks off", "half a JSON", "half a zip"


@dataclass
class Fault:
    """What happens to requests that contain a text ("POST /…"), so many times: a status, or a broken response."""

    part: str
    what: int | str
    times: int = 1000
    headers: dict[str, str] = field(default_factory=dict)


class FakeForge:
    """Comments, artifacts and pipelines of a repository, and the requests that were made."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.artifacts: list[dict[str, Any]] = []
        self.contents: dict[int, bytes] = {}
        self.pipelines: list[dict[str, Any]] = []
        self.stores: dict[int, bytes] = {}
        self.requests: list[str] = []
        self.faults: list[Fault] = []
        self.download_headers: dict[str, str] = {}
        self.is_read_only = False
        self.is_hidden = False
        self.is_public = False
        self.address = ""
        self.closing = threading.Event()

    def add_store(
        self, content: bytes | None, *, branch: str = "main", is_green: bool = True, is_expired: bool = False
    ) -> None:
        """Add a newest run of a branch to both forges; it has stored its results, unless they are None."""
        number = len(self.pipelines) + 1
        job = {
            "id": 100 + number,
            "name": "devui-evals-merge",
            "status": "success" if is_green else "failed",
            "artifacts_expire_at": "2001-01-01T00:00:00.000Z" if is_expired else "2999-01-01T00:00:00.000Z",
        }
        others = [{**job, "id": 900 + number, "name": "lint"}]
        self.pipelines.insert(0, {"id": number, "ref": branch, "jobs": [*others, job]})
        if content is not None:
            self.add_artifact(content, branch=branch, created_at=f"2027-01-{number:02}", expired=is_expired)
        if content is not None and not is_expired:
            self.stores[100 + number] = content

    def add_comment(self, body: str, author: dict[str, Any] = BOT) -> dict[str, Any]:
        comment = {"id": len(self.comments) + 1, "body": body, "user": author, "author": author}
        self.comments.append(comment)
        return comment

    def add_artifact(
        self, content: bytes, *, branch: str = "main", created_at: str = "2027-01-01", **more: Any
    ) -> None:
        number = len(self.artifacts) + 1
        run = {"head_branch": branch, "repository_id": 1, "head_repository_id": more.pop("fork", 1)}
        facts = {"id": number, "created_at": created_at, "expired": False, "workflow_run": run}
        self.artifacts.append({**facts, "name": "devui-evals-baseline", **more})
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as files:
            files.writestr("merged.sqlite3", content)
        self.contents[number] = archive.getvalue()

    def respond(
        self, method: str, path: str, headers: dict[str, str], body: dict[str, str]
    ) -> tuple[int, Any]:
        """Return the status and the body, or the location of a redirect."""
        parts = urlsplit(path)
        query = {name: ",".join(values) for name, values in parse_qs(parts.query).items()}
        if match := re.fullmatch(r"/blobs/(\d+)", parts.path):
            self.download_headers = headers
            return 200, self.contents[int(match[1])]
        if not self._is_allowed(method, parts.path, headers):
            return 401, {}
        if method != "GET" and self.is_read_only:
            return 403, {}
        return self._route(method, parts.path, query, body)

    def _is_allowed(self, method: str, path: str, headers: dict[str, str]) -> bool:
        """Tell whether a request has a token that allows it, or needs none."""
        if token := headers.get("Job-Token"):
            return token == JOB_TOKEN and re.fullmatch(r"/projects/5/jobs/\d+/artifacts/.+", path) is not None
        token = headers.get("Private-Token") or headers.get("Authorization", "").removeprefix("Bearer ")
        return token == TOKEN or (not token and self.is_public and method == "GET")

    def take_fault(self, request: str) -> Fault | None:
        """Return what is to happen to a request instead of its response, and count it."""
        fault = next((fault for fault in self.faults if fault.times and fault.part in request), None)
        if fault:
            fault.times -= 1
        return fault

    def _route(self, method: str, path: str, query: dict[str, str], body: dict[str, str]) -> tuple[int, Any]:
        if self.is_hidden:
            return 404, {}
        if path == "/user":
            return 200, {"id": BOT["id"]}
        if path == "/repos/o/r/actions/artifacts":
            matching_artifacts = [
                artifact for artifact in self.artifacts if artifact["name"] == query["name"]
            ]
            return 200, {"artifacts": _page(matching_artifacts[::-1], query)}
        if match := re.fullmatch(r"/repos/o/r/actions/artifacts/(\d+)/zip", path):
            return 302, f"{self.address}/blobs/{match[1]}"
        if path == "/projects/5/pipelines":
            return 200, [pipeline for pipeline in self.pipelines if pipeline["ref"] == query["ref"]]
        if match := re.fullmatch(r"/projects/5/pipelines/(\d+)/jobs", path):
            [jobs] = [pipeline["jobs"] for pipeline in self.pipelines if pipeline["id"] == int(match[1])]
            return 200, [job for job in jobs if job["status"] in query["scope[]"].split(",")]
        if match := re.fullmatch(r"/projects/5/jobs/(\d+)/artifacts/devui-evals/merged.sqlite3", path):
            content = self.stores.get(int(match[1]))
            return (404, {}) if content is None else (200, content)
        if path in {"/repos/o/r/issues/12/comments", "/projects/5/merge_requests/12/notes"}:
            if method == "POST":
                return 201, self.add_comment(body["body"])
            return 200, _page(self.comments, query)
        edited = re.fullmatch(
            r"/repos/o/r/issues/comments/(\d+)|/projects/5/merge_requests/12/notes/(\d+)", path
        )
        if edited and method == ("PATCH" if edited[1] else "PUT"):
            self.comments[int(edited[1] or edited[2]) - 1]["body"] = body["body"]
            return 200, {}
        return 404, {}


def _page(items: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
    page, size = int(query["page"]), int(query["per_page"])
    return items[(page - 1) * size : page * size]


@contextmanager
def serve(forge: FakeForge) -> Iterator[str]:
    """Serve the forge; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "{}")
            forge.requests.append(f"{self.command} {self.path}")
            fault = forge.take_fault(forge.requests[-1])
            if fault and isinstance(fault.what, int):
                self.respond(fault.what, b"{}", fault.headers)
                return
            if fault and fault.what == NEVER:
                forge.closing.wait()
                return
            status, response = forge.respond(self.command, self.path, dict(self.headers), body)
            content = response if isinstance(response, bytes) else json.dumps(response).encode()
            headers = {"Location": response} if status == 302 else {}
            if fault and fault.what in {HALF_JSON, HALF_ZIP}:
                content = content[: len(content) // 2]
            if fault and fault.what == HALF:
                headers["Content-Length"] = str(len(content))
                content = content[: len(content) // 2]
            self.respond(status, content, headers)

        do_GET = do_POST = do_PATCH = do_PUT = handle_request

        def respond(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    forge.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield forge.address
    finally:
        forge.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
