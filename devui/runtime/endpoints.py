"""Endpoints `/devui/…` of a runtime for the web process, beside ADK's own paths."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from google.adk.errors.input_validation_error import InputValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from typing_extensions import override

from devui.runtime import run_config
from devui.runtime.exception_text import safe_message
from devui.runtime.host import RuntimeHost
from devui.runtime.model_preview import PreviewRequest, preview_model
from devui.runtime.pause_edits import parse_contents
from devui.runtime.playground import PlaygroundCheck, find_problems
from devui.runtime.runs import MAX_MESSAGE
from devui.runtime.tool_calls import ToolCallRequest
from sessions_app.runs import lifecycle
from sessions_app.runs.frame_log import FrameLog
from sessions_app.store import scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError, NotFound, StoreFault
from sessions_app.store.short_texts import truncate

UNKNOWN_CALL = "Function call not found for function response ids"
"""Beginning of ADK's error about a response to a call that the session does not have (`google/adk/runners.py`)."""

KEEP_ALIVE_S = 15.0
"""Seconds of silence after which a stream sends a comment to keep the connection alive."""


class StartRun(BaseModel):
    """Body of `POST /devui/runs`."""

    run_id: str


class RunConfigCheck(BaseModel):
    """Body of `POST /devui/run-config`: the options of a run to check."""

    run_config: dict[str, Any]
    streaming: bool = False


class MemorySearch(BaseModel):
    """Body of `POST /devui/memory/search`: an agent's query to a user's memory."""

    user_id: str
    query: str


class StartEvalRun(BaseModel):
    """Body of `POST /devui/evals` and `POST /devui/evals/plan`."""

    eval_run_id: str


class VariantCheck(BaseModel):
    """Body of `POST /devui/evals/variants`: variants to check, as in a column of `EvalRun`."""

    variants: list[str]


class OptimiserCheck(BaseModel):
    """Body of `POST /devui/optimisations/inspect`: settings, as in a column of `Optimisation`."""

    settings: str


class OptimiserStep(BaseModel):
    """Body of `POST /devui/optimisations/next`."""

    optimisation: str


class ExecuteAttempt(BaseModel):
    """Body of `POST /devui/evals/attempts`."""

    attempt_pk: int


class SessionReference(BaseModel):
    """Body of `POST /devui/evals/conversation`."""

    user_id: str
    session_id: str
    realm: str = ""


class StartPlaygroundRun(BaseModel):
    """Body of `POST /devui/playground/runs`."""

    run: int


class PauseCheck(BaseModel):
    """Body of `POST /devui/pauses/check`: the contents of a request to a model; None: not changed."""

    contents: list[dict[str, Any] | None]


def add_endpoints(app: FastAPI, host: RuntimeHost) -> None:
    """Add the `/devui/…` paths to ADK's application."""
    router = APIRouter(prefix="/devui")
    _add_process_endpoints(router, host)
    _add_run_endpoints(router, host)
    _add_pause_endpoints(router)
    _add_eval_endpoints(router, host)
    _add_preview_endpoints(router, host)
    _add_playground_endpoints(router, host)
    _add_tool_endpoints(router, host)
    app.include_router(router)
    _add_error_handlers(app)


def _add_process_endpoints(router: APIRouter, host: RuntimeHost) -> None:
    """Add health and drain of the process."""

    @router.get("/health")
    async def health() -> dict[str, Any]:
        return host.health()

    @router.post("/drain", status_code=202)
    async def drain() -> dict[str, Any]:
        host.drain()
        return host.health()


def _add_run_endpoints(router: APIRouter, host: RuntimeHost) -> None:
    """Add check, start, stream and cancel of runs."""

    @router.post("/run-config")
    async def check_run_config(body: RunConfigCheck) -> dict[str, dict[str, str]]:
        return {"problems": run_config.find_problems(body.model_dump(), host.config.options)}

    @router.post("/runs", status_code=202)
    async def start_run(body: StartRun) -> dict[str, str]:
        await host.start_run(body.run_id)
        return {"run_id": body.run_id}

    @router.get("/runs/{run_id}/stream")
    async def stream(run_id: str, after: int = 0) -> StreamingResponse:
        frames = host.runs.frames(run_id)
        if frames is None:
            raise NotFound(f"No run {run_id!r} in this process.", hint="Its row says how it ended.")
        return StreamingResponse(_as_sse(frames, after), media_type="text/event-stream")

    @router.post("/runs/{run_id}/cancel")
    async def cancel_run(run_id: str) -> dict[str, Any]:
        ended = await host.runs.cancel(run_id)
        return {"ended": ended, "status": await units_of_work.read(lifecycle.get_status, run_id)}


def _add_pause_endpoints(router: APIRouter) -> None:
    """Add the check of what a person changes at a pause."""

    @router.post("/pauses/check")
    async def check_contents(body: PauseCheck) -> dict[str, int]:
        return {"contents": len(parse_contents(body.contents))}


def _add_eval_endpoints(router: APIRouter, host: RuntimeHost) -> None:
    """Add the start of eval runs, the check of variants, optimisers, the attempts of runs that workers coordinate, and
    sessions as conversations.
    """

    @router.post("/evals", status_code=202)
    async def start_eval_run(body: StartEvalRun) -> dict[str, str]:
        await host.evals.start(body.eval_run_id)
        return {"eval_run_id": body.eval_run_id}

    @router.post("/evals/plan")
    async def prepare_eval_run(body: StartEvalRun) -> dict[str, str]:
        await host.evals.prepare(body.eval_run_id)
        return {"eval_run_id": body.eval_run_id}

    @router.post("/evals/attempts")
    async def execute_attempt(body: ExecuteAttempt) -> dict[str, int]:
        await host.evals.execute_attempt(body.attempt_pk)
        return {"attempt_pk": body.attempt_pk}

    @router.post("/evals/variants")
    async def check_variants(body: VariantCheck) -> dict[str, int]:
        runner = await host.ready_runner("")
        host.evals.check_variants(body.variants, runner.agent)
        return {"variants": len(body.variants)}

    @router.post("/optimisations/inspect")
    async def inspect_agent(body: OptimiserCheck) -> dict[str, Any]:
        runner = await host.ready_runner("")
        return host.evals.inspect_agent(body.settings, runner.agent)

    @router.post("/optimisations/next")
    async def find_next_step(body: OptimiserStep) -> dict[str, Any]:
        await host.ready_runner("")  # the agent's code may register models
        return await host.evals.find_next_step(body.optimisation)

    @router.post("/evals/conversation")
    async def conversation(body: SessionReference) -> Any:
        return await host.evals.conversation(
            host.runs.find_session_service(body.realm), body.user_id, body.session_id
        )


def _add_preview_endpoints(router: APIRouter, host: RuntimeHost) -> None:
    """Add the preview of a model request, and the search in memory."""

    @router.post("/seen")
    async def what_the_model_sees(body: PreviewRequest) -> dict[str, Any]:
        return await preview_model(await host.ready_runner(body.realm), body)

    @router.post("/memory/search")
    async def search_memory(body: MemorySearch) -> dict[str, Any]:
        return {"memories": await host.recall_memory(body.user_id, body.query)}


def _add_playground_endpoints(router: APIRouter, host: RuntimeHost) -> None:
    """Add check and start of playground runs."""

    @router.post("/playground/check")
    async def check_columns(body: PlaygroundCheck) -> dict[str, list[str]]:
        runner = await host.ready_runner("")
        return {"problems": find_problems(runner.agent, body)}

    @router.post("/playground/runs", status_code=202)
    async def start_playground_run(body: StartPlaygroundRun) -> dict[str, int]:
        runner = await host.ready_runner("")
        await host.playground.start(body.run, runner.agent)
        return {"run": body.run}


def _add_tool_endpoints(router: APIRouter, host: RuntimeHost) -> None:
    """Add the call of a single tool."""

    @router.post("/tools/call")
    async def call_tool(body: ToolCallRequest, request: Request) -> JSONResponse:
        runner = await host.ready_runner(body.realm)
        return LenientJSONResponse(await host.tools.call(runner, body, request.is_disconnected))


class LenientJSONResponse(JSONResponse):
    """JSON response that may quote a client or an agent: NaN and lone surrogates are sent in their stored form."""

    @override
    def render(self, content: Any) -> bytes:
        """Return the bytes of the body."""
        try:
            return super().render(content)
        except (ValueError, RecursionError):
            return scopes.dumps(scopes.to_jsonable(content)).encode()


def _add_error_handlers(app: FastAPI) -> None:
    """Answer exceptions in the form of ADK's server, as valid JSON."""

    @app.exception_handler(DevUIError)
    async def answer_error(request: Request, error: DevUIError) -> JSONResponse:
        body = {"detail": error.message, "code": error.code, "hint": error.hint}
        headers = {"Retry-After": str(error.retry_after)} if error.retry_after else None
        return LenientJSONResponse(body, status_code=error.status, headers=headers)

    @app.exception_handler(Exception)
    async def answer_failure(request: Request, error: Exception) -> JSONResponse:
        return LenientJSONResponse(_failure_body(error), status_code=500)

    @app.exception_handler(InputValidationError)
    async def answer_refusal(request: Request, error: InputValidationError) -> JSONResponse:
        return LenientJSONResponse({"detail": str(error)}, status_code=400)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return LenientJSONResponse({"detail": jsonable_encoder(error.errors())}, status_code=422)

    @app.exception_handler(HTTPException)
    async def answer_http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, StoreFault):  # ADK's server answers any error of a service with 500
            return await answer_error(request, error.__cause__)
        return LenientJSONResponse(
            {"detail": error.detail}, status_code=error.status_code, headers=error.headers
        )


def _failure_body(error: Exception) -> dict[str, str]:
    """Return the body for an exception that ADK's server does not handle: it would answer 500 without details."""
    name, message = type(error).__name__, truncate(safe_message(error), MAX_MESSAGE)
    detail = name if message == name else f"{name}: {message}"
    if message.startswith(UNKNOWN_CALL):
        hint = "Use the id of a call of this session: GET the session, and look for functionCall.id."
        return {"detail": detail, "code": "unknown_call", "hint": hint}
    return {
        "detail": detail,
        "code": "agent_failed",
        "hint": "The session and the page of runs show where it failed.",
    }


async def _as_sse(frames: FrameLog, after: int) -> AsyncIterator[str]:
    following = aiter(frames.follow(after))
    coming = asyncio.ensure_future(anext(following))
    try:
        while True:
            await asyncio.wait([coming], timeout=KEEP_ALIVE_S)
            if not coming.done():
                yield ": still here\n\n"
                continue
            frame = coming.result()
            yield f"data: {json.dumps(frame)}\n\n"
            if frame["type"] == "end":
                return
            coming = asyncio.ensure_future(anext(following))
    finally:
        coming.cancel()
