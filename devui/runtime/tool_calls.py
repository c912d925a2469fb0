"""Calls of single tools by a person, outside of a run.

A tool's own `run_async` gets ADK's context with a session that exists only for the call: nothing is stored. Callbacks
and plug-ins are not called.
"""

from __future__ import annotations

import asyncio
import copy
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from google.adk.agents.invocation_context import InvocationContext, new_invocation_context_id
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
from google.adk.events.event_actions import EventActions
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext
from pydantic import BaseModel
from typing_extensions import override

from devui.runtime.agent_loading import traceback_text
from devui.runtime.exception_text import safe_message
from devui.runtime.runs import MAX_MESSAGE
from devui.runtime.tool_lookup import check_arguments, find_tool, list_candidates
from sessions_app.adk.run_log import UnstoredLog
from sessions_app.runs.agent_exit import AgentExited
from sessions_app.runs.background import BackgroundTasks
from sessions_app.store import scopes
from sessions_app.store.errors import DevUIError, NotFound
from sessions_app.store.redaction import redact
from sessions_app.store.short_texts import truncate
from sessions_app.store.traces.log_records import NewLogRecord

DEFAULT_USER = "user"
"""User of a call without a session, as on ADK's own page."""

SESSION_ID = "tool-call"
"""Id of the session that exists only for a call."""

POLL_S = 0.25
"""Seconds after which a call asks whether its caller is still there."""

CANCEL_GRACE_S = 2.0
"""Seconds that a cancelled tool has to end."""

MAX_CALLS = 20
"""Calls that a process executes at once."""

MAX_RESULT_CHARACTERS = 5_000_000
"""Most characters of the JSON of a result, a state delta or actions; of more, the beginning is returned as text."""

MAX_ARTIFACTS = 100
"""Artifacts that an outcome describes."""

SEPARATE_ACTIONS = {"state_delta", "artifact_delta"}
"""Actions that an outcome has in fields of their own."""


class TooManyCalls(DevUIError):
    """Too many calls of tools are active in a process."""

    status = 429
    code = "too_many_tool_calls"


class ToolCallRequest(BaseModel):
    """Body of `POST /devui/tools/call`.

    Attributes:
        agent: the agent that has the tool; empty: the only one that has it.
        state: state for the call; its keys replace those of the session.
        session_id: the session whose state and events the tool reads; empty: none.
        confirmation: the answer to a tool that asks for a confirmation; empty: none yet.
    """

    tool: str
    agent: str = ""
    args: dict[str, Any] = {}
    state: dict[str, Any] = {}
    realm: str = ""
    user_id: str = DEFAULT_USER
    session_id: str = ""
    confirmation: Literal["", "confirmed", "rejected"] = ""
    time_limit_s: float


class ToolCalls:
    """The active calls of this process."""

    def __init__(self, on_left: Callable[[], None]) -> None:
        self._on_left = on_left
        self._tasks = BackgroundTasks()

    def __len__(self) -> int:
        """Return the number of active calls."""
        return len(self._tasks)

    async def call(
        self, runner: Runner, call: ToolCallRequest, is_abandoned: Callable[[], Awaitable[bool]]
    ) -> dict[str, Any]:
        """Call a tool and return the outcome: see `ToolExecution.describe_outcome`.

        The call is cancelled when its time is over, or when `is_abandoned` says that nobody waits for it.

        Raises:
            NotFound: there is no such tool or session.
            BadInput: the arguments do not match the tool's schema, or the tool cannot be called by itself.
            TooManyCalls: `MAX_CALLS` calls are active, those included that go on after they were cancelled.
        """
        if len(self._tasks) >= MAX_CALLS:
            raise TooManyCalls(
                f"{MAX_CALLS} calls of tools are active in this process.",
                hint="Wait for them, or cancel one.",
            )
        execution = ToolExecution(runner, call)
        task = self._tasks.start(execution.run())
        task.add_done_callback(lambda _: self._on_left())
        deadline = time.monotonic() + call.time_limit_s
        try:
            while not task.done() and time.monotonic() < deadline and not await is_abandoned():
                await asyncio.wait([task], timeout=min(POLL_S, max(0.0, deadline - time.monotonic())))
            is_late = time.monotonic() >= deadline
        finally:
            execution.is_cancelled = not task.done()
            task.cancel()
        await asyncio.wait([task], timeout=CANCEL_GRACE_S)
        if task.done() and not task.cancelled():
            task.result()
        return await execution.describe_outcome(
            unfinished_status="timed_out" if is_late else "cancelled", has_stopped=task.done()
        )

    async def cancel_all(self) -> None:
        """Cancel every call before the process ends."""
        await self._tasks.cancel()


class ToolExecution:
    """One call of a tool, and what came of it so far."""

    def __init__(self, runner: Runner, call: ToolCallRequest) -> None:
        self._runner = runner
        self._call = call
        self.is_cancelled = False
        self._artifacts = InMemoryArtifactService()
        self._context: ToolContext | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._log: UnstoredLog | None = None
        self._records: list[NewLogRecord] = []
        self._status = "pending"
        self._tool: BaseTool | None = None
        self._agent = call.agent
        self._started_at = time.monotonic()
        self._seconds: float | None = None

    async def run(self) -> None:
        """Find the tool, check the arguments and call it. An exception of the tool is noted and not raised.

        Raises:
            NotFound: there is no such tool or session.
            BadInput: the arguments do not match the tool's schema, or the tool cannot be called by itself.
        """
        try:
            await self._call_tool()
        except (DevUIError, GeneratorExit, KeyboardInterrupt):
            raise
        except SystemExit as error:  # raised in a task, it would end the process
            self._note_error(AgentExited.of(error, "tool"))
        except asyncio.CancelledError as error:
            if self.is_cancelled:
                raise
            self._note_error(error)  # the tool waited for something that was cancelled
        except BaseException as error:
            self._note_error(error)

    async def _call_tool(self) -> None:
        candidates = list_candidates(self._runner.agent, self._call.agent)
        service = InMemorySessionService()
        session = await self._make_session(service)
        agent, tool = await find_tool(
            candidates, self._call.tool, lambda agent: self._make_context(service, session, agent)
        )
        check_arguments(tool, self._call.args)
        self._tool, self._agent = tool, agent.name
        self._context = ToolContext(
            self._make_context(service, session, agent),
            function_call_id=f"call-{uuid.uuid4().hex}",
            tool_confirmation=_read_confirmation(self._call.confirmation),
        )
        self._log = UnstoredLog(time.time)
        self._started_at = time.monotonic()
        try:
            self._result = await tool.run_async(
                args=copy.deepcopy(self._call.args), tool_context=self._context
            )
            self._status = "done"
        finally:
            self._seconds = time.monotonic() - self._started_at
            self._take_records()

    async def describe_outcome(self, *, unfinished_status: str, has_stopped: bool) -> dict[str, Any]:
        """Return the outcome of the call as JSON without credentials.

        `status` is done, failed, or `unfinished_status`: timed_out or cancelled. `has_stopped` is false if the tool
        goes on after it was cancelled.
        `result` is the tool's result, of which `result_note` says whether it was cut; `error` has type, message and
        traceback. `state_delta`, `artifacts` [{name, version, mime_type, size}] and `actions` are what the tool set in
        its context, `log` [{level, source, logger, message}] is what it logged and printed.
        """
        self._take_records()  # also those of a tool that goes on
        result, note = _cut_json(self._result)
        actions = self._context.actions if self._context else EventActions()  # records state changed in place
        seconds = time.monotonic() - self._started_at if self._seconds is None else self._seconds
        other_actions = actions.model_dump(
            by_alias=True, exclude_none=True, exclude_defaults=True, exclude=SEPARATE_ACTIONS
        )
        artifacts = list(actions.artifact_delta.items())[:MAX_ARTIFACTS]
        return {
            "agent": self._agent,
            "tool": self._call.tool,
            "status": unfinished_status if self._status == "pending" else self._status,
            "has_stopped": has_stopped,
            "is_long_running": bool(self._tool and self._tool.is_long_running),
            "seconds": seconds,
            "result": result,
            "result_note": note,
            "error": _error_json(self._error) if self._error else None,
            "state_delta": _cut_json(actions.state_delta)[0],
            "artifacts": [await self._describe_artifact(*item) for item in artifacts],
            "actions": _cut_json(other_actions)[0],
            "log": [_record_json(record) for record in self._records],
        }

    def _take_records(self) -> None:
        if self._log:
            self._records += self._log.take_records()

    def _note_error(self, error: BaseException) -> None:
        self._status, self._error = "failed", error

    async def _make_session(self, service: InMemorySessionService) -> Session:
        """Return the session of the call, with state and events of the stored session if the call names one.

        Raises:
            NotFound: there is no such session.
        """
        call = self._call
        session = await service.create_session(
            app_name=self._runner.app_name, user_id=call.user_id, session_id=SESSION_ID
        )
        if call.session_id:
            stored_session = await self._runner.session_service.get_session(
                app_name=self._runner.app_name, user_id=call.user_id, session_id=call.session_id
            )
            if stored_session is None:
                raise NotFound(f"No session {call.session_id!r}.", hint="It may have been deleted.")
            session.state.update(copy.deepcopy(dict(stored_session.state)))
            session.events.extend(stored_session.events)
        session.state.update(call.state)
        return session

    def _make_context(
        self, service: InMemorySessionService, session: Session, agent: LlmAgent
    ) -> InvocationContext:
        memory = self._runner.memory_service
        return InvocationContext(
            session_service=service,
            artifact_service=self._artifacts,
            memory_service=ReadOnlyMemoryService(memory) if memory else None,
            credential_service=InMemoryCredentialService(),
            invocation_id=new_invocation_context_id(),
            agent=agent,
            session=session,
            run_config=RunConfig(),
        )

    async def _describe_artifact(self, name: str, version: int) -> dict[str, Any]:
        """Return name, version, MIME type and size in bytes of an artifact that the tool saved."""
        part = await self._artifacts.load_artifact(
            app_name=self._runner.app_name,
            user_id=self._call.user_id,
            session_id=SESSION_ID,
            filename=name,
            version=version,
        )
        blob = part.inline_data if part else None
        text = part.text or "" if part else ""
        return {
            "name": scopes.clean_text(name),
            "version": version,
            "mime_type": blob.mime_type or "" if blob else "text/plain",
            "size": len(blob.data or b"" if blob else text.encode(errors="replace")),
        }


class ReadOnlyMemoryService(BaseMemoryService):
    """The memory of an app for a tool call, which finds entries and adds none."""

    def __init__(self, service: BaseMemoryService) -> None:
        self._service = service

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        """Add nothing: the session of a tool call is not stored."""

    @override
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Search the app's memory."""
        return await self._service.search_memory(app_name=app_name, user_id=user_id, query=query)


def _read_confirmation(answer: str) -> ToolConfirmation | None:
    return ToolConfirmation(confirmed=answer == "confirmed") if answer else None


def _cut_json(value: Any) -> tuple[Any, str]:
    """Return the JSON of a value without credentials, and a note if it was cut."""
    value = redact(scopes.to_jsonable(value))
    text = scopes.dumps(value)
    if len(text) <= MAX_RESULT_CHARACTERS:
        return value, ""
    note = f"The first {MAX_RESULT_CHARACTERS:,} of {len(text):,} characters of its JSON, as text."
    return text[:MAX_RESULT_CHARACTERS], note


def _error_json(error: BaseException) -> Mapping[str, str]:
    return {
        "type": type(error).__name__,
        "message": truncate(safe_message(error), MAX_MESSAGE),
        "traceback": traceback_text(error, skip=1),
    }


def _record_json(record: NewLogRecord) -> Mapping[str, Any]:
    return {
        "level": record.level,
        "source": record.source,
        "logger": record.logger,
        "message": record.message,
    }
