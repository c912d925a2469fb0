"""Rows of sessions, runs and runtime processes."""

from __future__ import annotations

import os

from sessions_app.agent_processes import processes
from sessions_app.runs import lifecycle
from sessions_app.store.models import AgentSession, Run, RuntimeProcess
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.writes import SessionKey


def new_session(session_id: str = "s1") -> AgentSession:
    return writes.create_session(SessionKey("", "weather", "ann", session_id))


def new_run(session: AgentSession, text: str = "hello") -> Run:
    message = {"role": "user", "parts": [{"text": text}]}
    return lifecycle.create_run(session.pk, {"new_message": message, "streaming": True})


def new_process(runtime_id: str = "r1", pid: int | None = None) -> RuntimeProcess:
    return processes.register(runtime_id, "weather", os.getpid() if pid is None else pid, "v1")
