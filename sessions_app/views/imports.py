"""The offer to import what `adk web` left beside the agents, and how far an import is."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from sessions_app.agents.folder import configured_folder
from sessions_app.errors import NotFound
from sessions_app.models import ImportSource
from sessions_app.transfer.writers import jobs
from sessions_app.transfer.writers.discovery import Found, found_beside

OFFER = "devui/components/import_offer.html"


@dataclass(frozen=True, slots=True)
class Offer:
    """A store beside an agent, with its import if there is one."""

    found: Found
    job: jobs.Job | None


@require_safe
def offers(request: HttpRequest) -> HttpResponse:
    """Show the stores that are not imported yet or have changed since, and the imports of this process."""
    return _render_offers(request)


@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Start the import of the store beside the agent `app`.

    Raises:
        NotFound: there is no store beside such an agent.
    """
    app_name = request.POST.get("app", "")
    found = next((each for each in _list_stores() if each.app_name == app_name), None)
    if found is None:
        raise NotFound(f"`adk web` left nothing beside the agent {app_name!r}.", hint="Reload the page.")
    jobs.start(found.location, found.app_name)
    return _render_offers(request)


@require_POST
def dismiss(request: HttpRequest) -> HttpResponse:
    """Take away the report of an import that has ended."""
    for found in _list_stores():
        if found.app_name == request.POST.get("app", ""):
            jobs.forget(found.location)
    return _render_offers(request)


def _render_offers(request: HttpRequest) -> HttpResponse:
    known = dict(ImportSource.objects.exclude(read_at=None).values_list("location", "fingerprint"))
    offers = [Offer(found, jobs.find(found.location)) for found in _list_stores()]
    shown = [offer for offer in offers if offer.job or not offer.found.stores.items() <= known.items()]
    is_working = any(offer.job and offer.job.is_running for offer in shown)
    return render(request, OFFER + "#offers", {"offers": shown, "is_working": is_working})


def _list_stores() -> list[Found]:
    folder = configured_folder()
    return found_beside(folder) if folder else []
