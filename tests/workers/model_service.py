"""Gemini's API on loopback, which refuses more requests a minute than it allows, and an agent that asks it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

AGENT = """
import os

from google.adk.agents import LlmAgent
from google.adk.models.google_llm import Gemini

model = Gemini(model="gemini-2.5-flash", base_url=os.environ["MODEL_SERVICE"])
root_agent = LlmAgent(name="asker", model=model)
"""

ANSWER = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "fine"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 10},
}

REFUSAL = {"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}

MINUTE_S = 60.0

ANSWER_S = 0.2
"""Seconds until an answer."""


class ModelService(ThreadingHTTPServer):
    """The service: answers at most `limit` requests in any minute, and refuses those in `refused` (from 1).

    Attributes:
        asked: times of all requests.
        refusals: times of refused ones.
        retry_after: seconds that a refusal requests.
    """

    def __init__(self, limit: int, refused: frozenset[int], retry_after: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[float] = []
        self.refusals: list[float] = []
        self.retry_after = retry_after
        self._limit = limit
        self._refused = refused
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def admit(self) -> bool:
        """Count a request; return False if it is refused."""
        with self._lock:
            now = time.monotonic()
            self.asked.append(now)
            in_minute = sum(at > now - MINUTE_S for at in self.asked)
            if in_minute > self._limit or len(self.asked) in self._refused:
                self.refusals.append(now)
                return False
            return True


class _Handler(BaseHTTPRequestHandler):
    server: ModelService

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        is_admitted = self.server.admit()
        time.sleep(ANSWER_S if is_admitted else 0)
        content = json.dumps(ANSWER if is_admitted else REFUSAL).encode()
        self.send_response(200 if is_admitted else 429)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if not is_admitted:
            self.send_header("Retry-After", str(self.server.retry_after))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def model_service(
    limit: int, refused: frozenset[int] = frozenset(), retry_after: int = 5
) -> Iterator[ModelService]:
    """Serve until the end of the block."""
    service = ModelService(limit, refused, retry_after)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    try:
        yield service
    finally:
        service.shutdown()
        service.server_close()


def write_asker(agents: Path) -> None:
    """Write the agent `asker`."""
    (agents / "asker").mkdir()
    (agents / "asker" / "agent.py").write_text(AGENT)
    (agents / "asker" / "__init__.py").write_text("from . import agent\n")
