"""Offers to import sessions that `adk web` stored in the agents folder, and the progress of imports."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.agents.folder import configured_folder
from sessions_app.http import note_object
from sessions_app.store.errors import NotFound
from sessions_app.store.models import ImportSource
from sessions_app.transfer.writers import jobs
from sessions_app.transfer.writers.discovery import AgentData, find_all_agent_data

OFFER = "devui/components/import_offer.html"


def offers(request: HttpRequest) -> HttpResponse:
    """Show stores that are not imported or have changed since, and the imports of agents' folders."""
    return _render_offers(request)


def start(request: HttpRequest) -> HttpResponse:
    """Start the import of the store in the folder of agent `app`.

    Raises:
        NotFound: the agent's folder holds no store.
    """
    app_name = request.POST.get("app", "")
    store = next((candidate for candidate in _list_stores() if candidate.app_name == app_name), None)
    if store is None:
        raise NotFound(
            f"The folder of agent {app_name!r} holds no sessions of `adk web`.", hint="Reload the page."
        )
    note_object(request, store.location, app=app_name)
    jobs.current_jobs().start(store.location, store.app_name)
    return _render_offers(request)


def dismiss(request: HttpRequest) -> HttpResponse:
    """Remove the report of an ended import."""
    for store in _list_stores():
        if store.app_name == request.POST.get("app", ""):
            note_object(request, store.location, app=store.app_name)
            jobs.current_jobs().forget(store.location)
    return _render_offers(request)


def _render_offers(request: HttpRequest) -> HttpResponse:
    read_fingerprints = dict(
        ImportSource.objects.exclude(read_at=None).values_list("location", "fingerprint")
    )
    stores = [(data, jobs.current_jobs().find(data.location)) for data in _list_stores()]
    offers = [
        {"data": data, "job": job}
        for data, job in stores
        if job or not data.stores.items() <= read_fingerprints.items()
    ]
    is_working = any(job and job.is_running for _, job in stores)
    return render(request, OFFER + "#offers", {"offers": offers, "is_working": is_working})


def _list_stores() -> list[AgentData]:
    folder = configured_folder()
    return find_all_agent_data(folder) if folder else []
