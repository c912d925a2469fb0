"""Agent page, restart, background loading of agents, and the app menu."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import split_domain_port
from django.shortcuts import render
from django.urls import reverse

from sessions_app.agents.folder import configured_folder
from sessions_app.agents.page import invocation_path
from sessions_app.agents.page.description import prepare_description
from sessions_app.agents.page.drawing import draw
from sessions_app.agents.readme import read_readme
from sessions_app.forms.query import QueryForm
from sessions_app.forms.sessions import SessionTtlForm
from sessions_app.http import render_partial, wants_partial
from sessions_app.paths import seg_reverse
from sessions_app.problems.problem_queries import problems_by_code
from sessions_app.runs import agent_loading
from sessions_app.sessions import listing, overview
from sessions_app.store import durations, expiry
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError
from sessions_app.store.models import AgentSession
from sessions_app.traces.toolset_tools import add_seen_tools

PAGE = "devui/agents/agent.html"
CARD = "devui/agents/status.html"

SESSIONS_SHOWN = 10

LOCAL_HOST_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Host names of a server on the browser's own machine, where links to source files open in the editor."""


class InvocationQuery(QueryForm):
    """Invocation whose path the drawing shows, in a session or in one of the newest."""

    invocation = forms.CharField(required=False, strip=False)
    session = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)


class DrawingQuery(QueryForm):
    """Parameter of the drawing of an agent: `tools=all` draws all tools, otherwise `draw` selects some."""

    tools = forms.ChoiceField(required=False, choices=[("all", "all")])


async def agent(request: HttpRequest, app_name: str) -> HttpResponse:
    """Show an agent's description, or why it cannot be loaded. A request for the part `agent-card` loads it first.

    Raises:
        NotFound: neither the agents folder nor any session knows the app.
    """
    problem = await agent_loading.try_to_load(app_name) if wants_partial(request, "agent-card") else None
    return await units_of_work.read(_agent_page, request, app_name, problem)


def _agent_page(request: HttpRequest, app_name: str, problem: DevUIError | None) -> HttpResponse:
    agent = overview.require_agent(app_name)
    newest = listing.list_newest_sessions(app_name)
    sessions = list(invocation_path.annotate_last_invocation(newest)[:SESSIONS_SHOWN])
    root = configured_folder()
    tree = prepare_description(agent.tree, str(root.root) if root else "") if agent.tree else None
    if tree:
        add_seen_tools(tree, sessions)
    path_taken = _invocation_path(request, app_name, sessions)
    ttl_s = expiry.app_ttl(app_name)
    ttl = SessionTtlForm(initial={"ttl": "" if ttl_s is None else durations.format_seconds(ttl_s)})
    context = {
        "agent": agent,
        "problem": problem,
        "sessions": sessions,
        "ttl": ttl,
        "tree": tree,
        "readme": read_readme(app_name) if tree else "",
        "drawing": draw(
            tree,
            path_taken.turns if path_taken else (),
            path_taken.called if path_taken else None,
            all_tools=bool(DrawingQuery(request.GET).read()["tools"]),
        )
        if tree
        else None,
        "path": path_taken,
        "problems": problems_by_code(sessions),
        "asked_for": request.GET.get("invocation", ""),
        "card_url": request.get_full_path(),
        "is_near": split_domain_port(request.get_host())[0] in LOCAL_HOST_NAMES,
    }
    return render_partial(request, PAGE, context, partial="agent-card")


def _invocation_path(
    request: HttpRequest, app_name: str, newest: list[AgentSession]
) -> invocation_path.InvocationPath | None:
    """Return the path of invocation `?invocation=` through the agents, in session `?session=` or one of the newest."""
    query = InvocationQuery(request.GET).read()
    if not query["invocation"]:
        return None
    of_session = AgentSession.objects.filter(pk=query["session"], app_name=app_name)
    return invocation_path.find_invocation_path(
        newest if query["session"] is None else of_session, query["invocation"]
    )


async def restart(request: HttpRequest, app_name: str) -> HttpResponse:
    """End the processes of an agent, and show its page, which loads it again.

    Raises:
        NotFound: the app is unknown.
        RuntimeUnavailable: a worker does not answer.
    """
    await units_of_work.read(overview.require_agent, app_name)
    await agent_loading.restart_agent(app_name)
    return HttpResponseRedirect(seg_reverse("agent", app_name=app_name))


async def check(request: HttpRequest) -> HttpResponse:
    """Load the agent `?app=`, render its status card, and name the next agent that the page should load."""
    app_name = request.GET.get("app", "")
    problem = await agent_loading.try_to_load(app_name)
    return await units_of_work.read(_render_status_card, request, app_name, problem)


def _render_status_card(request: HttpRequest, app_name: str, problem: DevUIError | None) -> HttpResponse:
    context = {
        "agent": overview.find_agent(app_name),
        "problem": problem,
        "next_check": overview.next_to_load(after=app_name),
    }
    return render(request, CARD + "#checked", context)


MENU_PLACES = (
    "sessions",
    "problems",
    "evals",
    "trends",
    "runs",
    "state",
    "artifacts",
    "memory",
)
"""Route names of lists that `?app=` filters. On other pages the menu links to the app's own page."""


def menu(request: HttpRequest) -> HttpResponse:
    """Render the app menu: links to the current list filtered by another app."""
    route = request.GET.get("place", "")
    url = reverse(route) if route in MENU_PLACES else ""
    context = {
        "current": request.GET.get("app", ""),
        "all_apps": url or reverse("home"),
        "place": url,
        "apps": [(name, seg_reverse("agent", app_name=name)) for name in overview.app_names()],
    }
    return render(request, "devui/components/app_menu.html", context)
