"""Agent cards: the description of an app's agent as it was last loaded, or the error of its loading."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from django.db import transaction

from sessions_app.store.database import change_notification
from sessions_app.store.models import AgentCard

TOOLS_OF_ADK = frozenset({"transfer_to_agent", "set_model_response", "finish_task", "exit_loop"})
"""Tools that ADK itself gives to agents; no description names them."""


def save_loaded(app_name: str, code_version: str, description: Mapping[str, Any]) -> None:
    """Save the description of a loaded agent."""
    _save_card(app_name, code_version, AgentCard.Status.READY, description=json.dumps(description))


def save_failure(app_name: str, code_version: str, error: Mapping[str, Any]) -> None:
    """Save why the agent could not be loaded: type, message, file, line, traceback. The last description stays."""
    _save_card(app_name, code_version, AgentCard.Status.FAILED, error=json.dumps(error))


def last_checked_at(app_name: str) -> float | None:
    """Return the time at which an app's card was last written; None if there is no card."""
    return AgentCard.objects.filter(app_name=app_name).values_list("checked_at", flat=True).first()


def read_description(app_name: str) -> dict[str, Any]:
    """Return the description in an app's card; empty if the app was never loaded."""
    text = AgentCard.objects.filter(app_name=app_name).values_list("description", flat=True).first()
    description: dict[str, Any] = json.loads(text or "{}")
    return description


def iter_agents(agent: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an agent of a description, the agents below it, and those inside its tools."""
    yield agent
    inner = [tool["agent"] for tool in agent.get("tools") or [] if tool.get("agent")]
    for child in (*(agent.get("sub_agents") or []), *(agent.get("nodes") or []), *inner):
        yield from iter_agents(child)


def is_toolset(tool: Mapping[str, Any]) -> bool:
    """Tell whether a described tool is a toolset, which lists its tools only when it runs."""
    return tool.get("type") == "toolset"


def _save_card(app_name: str, code_version: str, status: AgentCard.Status, **facts: str) -> None:
    values = {"status": status, "code_version": code_version, "checked_at": time.time(), **facts}
    with transaction.atomic():
        AgentCard.objects.update_or_create(app_name=app_name, defaults={"error": "{}", **values})
        change_notification.notify_after_commit()
