"""A server on loopback with the parts of the APIs of GitHub and GitLab that deploy/ci asks for."""

from __future__ import annotations

import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-secret-token"
BOT = {"login": "github-actions[bot]", "id": 7}


class FakeForge:
    """Comments and artifacts of a repository, and the requests that were made."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.artifacts: list[dict[str, Any]] = []
        self.contents: dict[int, bytes] = {}
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.download_headers: dict[str, str] = {}
        self.is_read_only = False
        self.is_hidden = False
        self.address = ""

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
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if match := re.fullmatch(r"/blobs/(\d+)", parts.path):
            self.download_headers = headers
            return 200, self.contents[int(match[1])]
        if TOKEN not in (
            headers.get("Private-Token"),
            headers.get("Authorization", "").removeprefix("Bearer "),
        ):
            return 401, {}
        if method != "GET" and self.is_read_only:
            return 403, {}
        return self._route(method, parts.path, query, body)

    def _route(self, method: str, path: str, query: dict[str, str], body: dict[str, str]) -> tuple[int, Any]:
        if self.is_hidden:
            return 404, {}
        if path == "/projects/5":
            return 200, {"id": 5}
        if path == "/user":
            return 200, {"id": BOT["id"]}
        if path == "/repos/o/r/actions/artifacts":
            return 200, {
                "artifacts": [artifact for artifact in self.artifacts if artifact["name"] == query["name"]]
            }
        if match := re.fullmatch(r"/repos/o/r/actions/artifacts/(\d+)/zip", path):
            return 302, f"{self.address}/blobs/{match[1]}"
        if match := re.fullmatch(r"/projects/5/jobs/artifacts/([^/]+)/raw/(.+)", path):
            content = self.files.get(f"{match[1]}:{query['job']}:{match[2]}")
            return (200, content) if content else (404, {})
        if path in {"/repos/o/r/issues/12/comments", "/projects/5/merge_requests/12/notes"}:
            if method == "POST":
                return 201, self.add_comment(body["body"])
            page, size = int(query["page"]), int(query["per_page"])
            return 200, self.comments[(page - 1) * size : page * size]
        edited = re.fullmatch(
            r"/repos/o/r/issues/comments/(\d+)|/projects/5/merge_requests/12/notes/(\d+)", path
        )
        if edited and method == ("PATCH" if edited[1] else "PUT"):
            self.comments[int(edited[1] or edited[2]) - 1]["body"] = body["body"]
            return 200, {}
        return 404, {}


@contextmanager
def serve(forge: FakeForge) -> Iterator[str]:
    """Serve the forge; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "{}")
            forge.requests.append(f"{self.command} {self.path}")
            status, response = forge.respond(self.command, self.path, dict(self.headers), body)
            content = response if isinstance(response, bytes) else json.dumps(response).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", response)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_PUT = handle_request

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    forge.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield forge.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
