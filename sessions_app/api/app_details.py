"""App descriptions for `GET /list-apps?detailed=true`, from agent cards."""

from __future__ import annotations

import json
import logging
from typing import Any

from sessions_app.agents import remotes
from sessions_app.agents.folder import configured_folder
from sessions_app.runs import agent_loading
from sessions_app.runs.runtime_client import provider
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError
from sessions_app.store.models import AgentCard

log = logging.getLogger(__name__)


async def details() -> list[dict[str, Any]]:
    """Return name, root agent, description and language of each app that loads, as ADK's `AppInfo`.

    Apps without a description are loaded first. As in ADK, apps that fail to load are left out.
    """
    names = provider().apps()
    for name in sorted(set(names) - await units_of_work.read(_described_apps)):
        try:
            await agent_loading.load_agent(name)
        except DevUIError as error:
            log.warning("%s cannot be described: %s", name, error)
    return await units_of_work.read(_describe_apps, names)


def _described_apps() -> set[str]:
    cards_of_loaded = AgentCard.objects.exclude(status=AgentCard.Status.UNKNOWN)
    return set(cards_of_loaded.values_list("app_name", flat=True))


def _describe_apps(names: list[str]) -> list[dict[str, Any]]:
    loaded = AgentCard.objects.filter(app_name__in=names, status=AgentCard.Status.READY)
    return [_app_info(card.app_name, json.loads(card.description)) for card in loaded.order_by("app_name")]


def _app_info(name: str, tree: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "rootAgentName": tree.get("name", ""),
        "description": tree.get("description", ""),
        "language": _find_language(name),
        "isComputerUse": bool(tree.get("is_computer_use")),
        "agents": None,
    }


def _find_language(name: str) -> str:
    if remote := remotes.find_remote(name):
        return remote.language or "python"
    agents_folder = configured_folder()
    try:
        folder = agents_folder.app_folder(name) if agents_folder else None
    except DevUIError:
        folder = None
    if folder is None:
        return "python"
    return "yaml" if (folder / "root_agent.yaml").exists() else "python"
