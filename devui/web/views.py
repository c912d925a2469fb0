"""Home page and command palette, which combine sessions and evals."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from devui.web.agent_evalsets import AgentEvalset, read_folder_evalsets
from sessions_app.agents import remotes
from sessions_app.agents.folder import configured_folder
from sessions_app.http import render_partial, wants_partial
from sessions_app.sessions import first_steps, list_updates, listing, overview, saved_views

MAX_SESSIONS = 8


def home(request: HttpRequest) -> HttpResponse:
    """Show every agent with its state, newest sessions and evalsets. Unknown states are requested later.

    The page polls its remote servers, and says when their agents have changed.
    """
    servers = remotes.all_remotes()
    agents_mark = list_updates.row_mark(*remotes.list_app_names(servers))
    if wants_partial(request, "remotes"):
        page_mark = request.GET.get("mark", agents_mark)
        context = {"remotes": servers, "agents_mark": page_mark, "has_others": page_mark != agents_mark}
        return render(request, "devui/agents/remotes.html", context)
    agents, folder = overview.all_agents(), configured_folder()
    evalsets = read_folder_evalsets(folder, *(agent.name for agent in agents if agent.in_folder))
    context = {
        "agents": [(agent, evalsets.get(agent.name, [])) for agent in agents],
        "folder": folder,
        "remotes": servers,
        "agents_mark": agents_mark,
        "first_steps": first_steps.find_first_steps(agents) if agents else None,
        "next_check": next((agent.name for agent in agents if agent.is_asked_for), ""),
    }
    return render(request, "devui/home.html", context)


def go(request: HttpRequest) -> HttpResponse:
    """Show the command palette's page, or the two fragments that the palette loads."""
    typed = request.GET.get("q", "").strip()
    context: dict[str, object] = {
        "typed": typed,
        "sessions": listing.find_by_names(typed, MAX_SESSIONS),
    }
    if wants_partial(request, "go-sessions"):
        return render(request, "devui/go.html#sessions", context)
    context |= {
        "views": [view for view in saved_views.all_views() if _matches_words(typed, view.name)],
        "apps": [name for name in overview.app_names() if _matches_words(typed, name)],
        "evalsets": [
            evalset
            for evalset in _list_evalsets()
            if _matches_words(typed, evalset.app_name, evalset.evalset_id)
        ],
    }
    return render_partial(request, "devui/go.html", context, partial="results", target="go-results")


def _list_evalsets() -> list[AgentEvalset]:
    folder = configured_folder()
    by_app = read_folder_evalsets(folder, *(folder.names() if folder else ()))
    return [evalset for evalsets in by_app.values() for evalset in evalsets]


def _matches_words(typed: str, *names: str) -> bool:
    text = " ".join(names).casefold()
    return all(word in text for word in typed.casefold().split())
