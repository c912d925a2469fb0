"""Pages that more than one room has a part in."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from devui.web.agent_evalsets import Evalset, evalsets_of
from sessions_app.agents import remotes
from sessions_app.agents.folder import configured_folder
from sessions_app.http import render_partial, wants_partial
from sessions_app.sessions import list_updates, overview, quick_open, saved_views

MOST_SESSIONS = 8


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Show every agent: its state, its newest sessions, its evalsets. What is not known is asked for later.

    The remote servers on a page are looked at again and again; that their agents are others is said.
    """
    known = remotes.all_remotes()
    shown = list_updates.mark_of(*remotes.list_app_names(known))
    if wants_partial(request, "remotes"):
        was = request.GET.get("shown", shown)
        context = {"remotes": known, "shown": was, "has_others": was != shown}
        return render(request, "devui/agents/remotes.html", context)
    agents, folder = overview.all_agents(), configured_folder()
    evalsets = evalsets_of(folder, *(agent.name for agent in agents if agent.in_folder))
    context = {
        "agents": [(agent, evalsets.get(agent.name, [])) for agent in agents],
        "folder": folder,
        "remotes": known,
        "shown": shown,
        "next_check": next((agent.name for agent in agents if agent.is_asked_for), ""),
    }
    return render(request, "devui/home.html", context)


@require_safe
def go(request: HttpRequest) -> HttpResponse:
    """Show where one can go: the palette's page, and the two parts that the palette reads."""
    typed = request.GET.get("q", "").strip()
    context: dict[str, object] = {
        "typed": typed,
        "sessions": quick_open.find_sessions(typed, MOST_SESSIONS),
    }
    if wants_partial(request, "go-sessions"):
        return render(request, "devui/go.html#sessions", context)
    context |= {
        "views": [view for view in saved_views.all_views() if _holds(typed, view.name)],
        "apps": [name for name in overview.app_names() if _holds(typed, name)],
        "evalsets": [one for one in _evalsets() if _holds(typed, one.app_name, one.evalset_id)],
    }
    return render_partial(request, "devui/go.html", context, partial="found", target="go-found")


def _evalsets() -> list[Evalset]:
    folder = configured_folder()
    found = evalsets_of(folder, *(folder.names() if folder else ()))
    return [evalset for evalsets in found.values() for evalset in evalsets]


def _holds(typed: str, *names: str) -> bool:
    text = " ".join(names).casefold()
    return all(word in text for word in typed.casefold().split())
