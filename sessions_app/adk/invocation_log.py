"""Log of an invocation: its model calls and stages.

Records go to the outbox (`traces.outbox`). Only the end of a run waits for it, for a limited time, so that the records
are stored when the run is reported as ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from sessions_app.adk import spans
from sessions_app.adk.error_causes import find_error_cause
from sessions_app.adk.lost_toolsets import report_lost_toolsets
from sessions_app.adk.mirror import MirroredSessionService
from sessions_app.adk.model_calls import OpenModelCall
from sessions_app.adk.nested_runs import NestedRuns
from sessions_app.adk.run_log import RunLog
from sessions_app.adk.service import DjangoSessionService
from sessions_app.store.database.stopwatch import Stopwatch
from sessions_app.store.events.error_causes import ErrorCause
from sessions_app.store.models import Trace
from sessions_app.store.session_key import SessionKey
from sessions_app.store.short_texts import truncate
from sessions_app.store.traces.outbox import Unit, outbox
from sessions_app.store.traces.records import MAX_STAGES, StageRecord, save_stages

OPEN_S = 0.5
"""Seconds after which a request without response is stored."""

END_S = 0.5
"""Maximum seconds that the end of a run waits for its records to be stored."""

LOGS_MOST = 200
PARTIALS_MOST = 2_000
"""Maximum number of chunks that are kept for an unfinished response."""

STAGES_AT_ONCE = 50
CAUSE_MOST = 300
"""Maximum length of the text of an exception whose cause is noted, in characters."""

_current_log: contextvars.ContextVar[InvocationLog | None] = contextvars.ContextVar(
    "devui_invocation", default=None
)


class InvocationLog:
    """Log of an active invocation."""

    def __init__(
        self,
        key: SessionKey,
        invocation_id: str,
        root_agent: str,
        *,
        is_live: bool = False,
        keep_logs: bool = True,
    ) -> None:
        self.key = key
        self.invocation_id = invocation_id
        self.root_agent = root_agent
        self._is_live = is_live
        self._live: dict[str, OpenModelCall] = {}
        self.trace_id = ""
        self._watch = Stopwatch()
        self.task: asyncio.Task[Any] | None = None
        self.on_task_end: Callable[[asyncio.Task[Any]], None] | None = None
        self._stages: deque[StageRecord] = deque()
        self._calls: dict[int, tuple[EventActions, OpenModelCall]] = {}
        self._lost_toolsets: set[str] = set()
        self._last_error: BaseException | None = None
        self.nested_runs = NestedRuns(key, invocation_id)
        self.run_log = RunLog(key, invocation_id, self._watch.now) if keep_logs else None

    def note_stage(
        self, name: str, of: str = "", reached_at: float | None = None, *, is_last: bool = False
    ) -> None:
        """Note a stage of an agent or a tool. The last one ends the invocation."""
        if is_last or len(self._stages) < MAX_STAGES:
            self._stages.append(
                StageRecord(name, self._watch.now() if reached_at is None else reached_at, of, is_last)
            )
            if is_last or len(self._stages) % STAGES_AT_ONCE == 0:
                self._send_stages()

    def note_start(self) -> None:
        """Note that the root agent starts: the session is loaded, the user's message is stored."""
        self.note_stage("context ready", self.root_agent)
        self.trace_id = spans.attach_to_invocation(self.key, self.invocation_id) or self.trace_id
        self._send_stages()

    def note_request(self, context: CallbackContext, request: LlmRequest) -> None:
        """Note a model request. It is stored with the response, after callbacks have changed it."""
        call = OpenModelCall(
            key=self.key,
            ref=uuid.uuid4().hex,
            invocation_id=self.invocation_id,
            agent=context.agent_name,
            branch=context.branch or "",
            request=request,
            started_at=self._watch.now(),
            is_live=self._is_live,
        )
        self._drop_finished_calls()
        self._calls[id(context.actions)] = context.actions, call
        if self._is_live:
            self._live[call.agent] = call
        self.note_stage("request ready", call.agent, call.started_at)
        # An empty context: the timer must not keep the run's spans and variables alive.
        asyncio.get_running_loop().call_later(
            OPEN_S, self._store_open_call, call, context=contextvars.Context()
        )

    def note_response(self, context: CallbackContext, response: LlmResponse) -> None:
        """Note a response or a chunk."""
        call = self._find_call(context.actions)
        if call is None:
            return
        now = self._watch.now()
        if call.first_at is None:
            call.first_at = now
            self.note_stage("first answer", call.agent, now)
        if response.partial:
            call.chunks += 1
            if len(call.partials) < PARTIALS_MOST:
                call.partials.append(response)
            return
        call.finished_at = now
        call.responses.append(response)
        self.note_stage("answer", call.agent, now)

    def note_model_error(self, context: CallbackContext, error: Exception) -> None:
        """Note that a model raised an exception."""
        call = self._find_call(context.actions)
        if call is not None:
            call.error, call.finished_at = error, self._watch.now()
            self.note_error_cause(error)
            self.note_stage("model failed", call.agent, call.finished_at)
            outbox().enqueue(call.snapshot())

    def note_error_cause(self, error: BaseException) -> None:
        """Note the cause of an exception, if its type or status shows one, once: it may end tool, model and run."""
        cause = find_error_cause(error)
        if cause is not ErrorCause.OTHER and error is not self._last_error:
            self._last_error = error
            text = truncate(f"{type(error).__name__}: {error}", CAUSE_MOST)
            self.note_stage(Trace.ERROR_CAUSE, f"{cause}: {text}")

    def note_lost_toolset(self, toolset: str) -> None:
        """Note a toolset that failed to load, once: agents retry before every request."""
        if toolset not in self._lost_toolsets:
            self._lost_toolsets.add(toolset)
            self.note_stage(Trace.LOST_TOOLSET, toolset)

    def note_event(self, event: Event) -> None:
        """Note the event that a model call produced."""
        call = self._find_call(event.actions)
        if call is None:
            return
        if call.first_at is None and call.error is None:
            call.by_callback, call.finished_at = True, self._watch.now()
        call.event_ids.append(event.id)
        outbox().enqueue(call.snapshot())

    def note_live_event(self, event: Event) -> None:
        """Note an event of a live connection as a response to its agent's last request.

        ADK reports what is sent by `before_model_callback` (typed text and complete transcriptions), but responses only
        by events. It does not report tool results that it sends.
        """
        call = self._live.get(event.author)
        if call is None or event.get_function_responses():
            return
        now = self._watch.now()
        if call.first_at is None:
            call.first_at = now
            self.note_stage("first answer", call.agent, now)
        if event.partial:
            call.chunks += 1
            return
        call.responses.append(event)
        call.event_ids.append(event.id)
        if event.turn_complete:
            call.finished_at = now
            self.note_stage("answer", call.agent, now)
        outbox().enqueue(call.snapshot())

    def find_model(self, event: Event) -> str:
        """Return the model that was asked for an event; empty: none, or unknown."""
        call = self._find_call(event.actions) or self._live.get(event.author)
        return (call.request.model or "") if call else ""

    async def finish(self, error: Exception | None = None) -> None:
        """Send the remaining records and wait until they are stored, for a limited time."""
        if error:
            self.note_error_cause(error)
            self._send_remaining(Trace.FAILED, type(error).__name__)
        else:
            self._send_remaining("end", self.root_agent)
        await outbox().wait_written(END_S)

    def abort(self) -> None:
        """Send the remaining records of a cancelled invocation."""
        self._send_remaining(Trace.CUT_OFF, self.root_agent)

    def _send_remaining(self, last_stage: str, of: str) -> None:
        ended_at = self._watch.now()
        self.nested_runs.close_all()
        if self.run_log:
            self.run_log.close()
        calls = [call for _, call in self._calls.values()]
        for call in dict.fromkeys([*calls, *self._live.values()]):
            is_open = call.finished_at is None
            if is_open:
                call.finished_at = self._watch.now()
            if is_open or (not call.event_ids and call.error is None):
                outbox().enqueue(call.snapshot())
        self._calls.clear()
        self._live.clear()
        self.note_stage(last_stage, of, ended_at, is_last=True)

    def _store_open_call(self, call: OpenModelCall) -> None:
        """Store a request that has no response yet: it may never get one."""
        if call.finished_at is None:
            outbox().enqueue(call.snapshot())
            self._send_stages()

    def _send_stages(self) -> None:
        outbox().enqueue(self._stages_unit)

    def _stages_unit(self) -> Unit:
        """Return the write of the stages noted so far. Called in the outbox's thread, which alone removes stages."""
        stages = [self._stages.popleft() for _ in range(len(self._stages))]
        return partial(save_stages, self.key, self.invocation_id, stages, self.trace_id, self.root_agent)

    def _drop_finished_calls(self) -> None:
        """Drop requests that have produced events, when the next request begins."""
        self._calls = {
            name: (actions, call)
            for name, (actions, call) in self._calls.items()
            if not call.event_ids and call.error is None
        }

    def _find_call(self, actions: EventActions) -> OpenModelCall | None:
        entry = self._calls.get(id(actions))
        return entry[1] if entry else None


def _note_lost_toolset(toolset: str) -> None:
    if log := _current_log.get():
        log.note_lost_toolset(toolset)


report_lost_toolsets(_note_lost_toolset)


class InvocationLogs:
    """Logs of the active invocations, by id. The oldest are dropped, since an invocation may end without notice."""

    def __init__(self, *, keep_logs: bool = True) -> None:
        self._keep_logs = keep_logs
        self._by_id: OrderedDict[str, InvocationLog] = OrderedDict()

    def open(self, context: InvocationContext) -> InvocationLog | None:
        """Return the log of an invocation, or None if its session is not in DevUI's store.

        An agent that is used as a tool runs in an in-memory session; its model calls belong to the outer invocation.
        """
        open_log = self._by_id.get(context.invocation_id)
        if open_log is not None:
            return open_log
        if isinstance(context.session_service, InMemorySessionService):
            return self._outer_log(context)
        key = find_session_key(context.session_service, context)
        if key is None:
            return None
        root, is_live = context.agent.name if context.agent else "", context.live_request_queue is not None
        log = InvocationLog(key, context.invocation_id, root, is_live=is_live, keep_logs=self._keep_logs)
        _current_log.set(log)
        if task := asyncio.current_task():
            log.task, log.on_task_end = task, partial(self._abort_log, log)
            task.add_done_callback(log.on_task_end)
        return self._add_log(context.invocation_id, log)

    def get(self, invocation_id: str) -> InvocationLog | None:
        """Return the log of an invocation, or None."""
        return self._by_id.get(invocation_id)

    async def close(self, invocation_id: str, error: Exception | None = None) -> None:
        """End the log of an invocation; a nested invocation does not end the outer log."""
        log = self._by_id.pop(invocation_id, None)
        if log is not None and log.invocation_id != invocation_id:
            log.nested_runs.close(invocation_id, error)
        elif log is not None:
            _current_log.set(None)
            if log.task and log.on_task_end:
                log.task.remove_done_callback(log.on_task_end)
            await log.finish(error)

    def _abort_log(self, log: InvocationLog, task: asyncio.Task[Any]) -> None:
        """End the log of an invocation whose task has ended: ADK does not notify plug-ins of a cancellation."""
        if self._by_id.pop(log.invocation_id, None) is log:
            log.abort()

    def _outer_log(self, context: InvocationContext) -> InvocationLog | None:
        outer = _current_log.get()
        if outer is None or outer.invocation_id not in self._by_id:
            return None
        outer.nested_runs.open(context)
        return self._add_log(context.invocation_id, outer)

    def _add_log(self, invocation_id: str, log: InvocationLog) -> InvocationLog:
        self._by_id[invocation_id] = log
        while len(self._by_id) > LOGS_MOST:
            oldest_id, oldest = self._by_id.popitem(last=False)
            if oldest.run_log and oldest_id == oldest.invocation_id:  # else it is a nested run's id
                oldest.run_log.close()
        return log


def find_session_key(service: BaseSessionService, context: InvocationContext) -> SessionKey | None:
    """Return the session's key in DevUI's store, or None if neither it nor a copy is stored there."""
    store_service = service.copy if isinstance(service, MirroredSessionService) else service
    if not isinstance(store_service, DjangoSessionService):
        return None
    session = context.session
    return SessionKey(store_service.realm, session.app_name, session.user_id, session.id)
