"""Models and judges whose services refuse calls, and agents with them."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import errors, types

SOON = {"Retry-After": "0.02"}


def client_error(code, headers=SOON):
    response = httpx.Response(code, headers=headers)
    return errors.APIError(code, {"error": {"code": code, "message": "Slow down.", "status": "NO"}}, response)


class Fails(BaseLlm):
    """A model that raises what is left to raise, then gives verdicts that everything is right."""

    left: list[Exception]
    request_count: int = 0
    says: str = '{"is_the_agent_response_valid": "valid"}'

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.request_count += 1
        if self.left:
            raise self.left.pop(0)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=self.says)]))


def agent(model, **more):
    return LlmAgent(name="counter", model=model, **more)


class Service(BaseHTTPRequestHandler):
    """Gemini's API: gives the answers that are left, in order."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.request_count += 1
        status, body, headers = self.server.answers.pop(0)
        if status == "hang up":
            self.close_connection = True
            return
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": len(content),
            **headers,
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def service(monkeypatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.answers, server.request_count = [], 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def refusal(status, text="Slow down.", headers=SOON, **error):
    return status, {"error": {"code": status, "message": text, "status": "NO", **error}}, headers


def gemini(service, **more):
    return Gemini(model="gemini-2.5-flash", base_url=f"http://127.0.0.1:{service.server_address[1]}", **more)


class FailingJudge(BaseLlm):
    """A judge that raises what is left to raise."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        LEFT["calls"] += 1
        if LEFT["errors"]:
            raise LEFT["errors"].pop(0)
        valid = types.Part(text='{"is_the_agent_response_valid": "valid"}')
        yield LlmResponse(content=types.Content(role="model", parts=[valid]))

    @classmethod
    def supported_models(cls) -> list[str]:
        return ["failing-judge"]


LLMRegistry.register(FailingJudge)
LEFT: dict = {}


@pytest.fixture
def judge(monkeypatch):
    """What the failing judge raises, and how often it was asked."""
    monkeypatch.setitem(LEFT, "errors", [])
    monkeypatch.setitem(LEFT, "calls", 0)
    return LEFT


def judge_config(**more):
    options = {"judge_model": "failing-judge", "num_samples": 1}
    return {
        "criteria": {"final_response_match_v2": {"threshold": 0.5, "judge_model_options": options}, **more}
    }


def talks(ctx, text):
    return "fine"
