"""Pages that more than one room has a part in."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from devui.evalsets import evalsets_of
from sessions_app import overview


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Show every agent: its state, its newest sessions, its evalsets. What is not known is asked for later."""
    agents, folder = overview.overview(), overview.folder()
    evalsets = evalsets_of(folder, *(agent.name for agent in agents if agent.in_folder))
    context = {
        "agents": [(agent, evalsets.get(agent.name, [])) for agent in agents],
        "folder": folder,
        "next_check": next((agent.name for agent in agents if agent.is_asked_for), ""),
    }
    return render(request, "devui/home.html", context)
