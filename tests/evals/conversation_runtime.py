"""A runtime that tells ADK's turns of stored sessions, without a process."""

from __future__ import annotations

from typing import Any

from evals_app.execution.conversations import build_conversation
from sessions_app.adk import DjangoSessionService


class ConversationRuntime:
    """The process of the agent `counter`, which tells a session's turns by ADK's own conversion."""

    def apps(self) -> list[str]:
        """Return the name of the agent."""
        return ["counter"]

    async def client(self, app_name: str) -> ConversationRuntime:
        """Return this runtime."""
        return self

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Answer the only request that it knows."""
        assert path == "/devui/evals/conversation"
        owner = {"app_name": "counter", "user_id": body["user_id"], "session_id": body["session_id"]}
        session = await DjangoSessionService(body["realm"]).get_session(**owner)
        assert session is not None
        return build_conversation(session.events)
