"""What can be done with sessions that are read out of traces: listed, expired, purged, deleted, but not changed."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from sessions_app.sessions import deletion, purge
from sessions_app.store import expiry, realms
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, AppSettings, Span
from tests.otlp.otlp_requests import NOW_NS, make_span
from tests.pages.html import parse

DAY_S = 86_400.0


async def test_traced_sessions_expire_and_are_purged(exporter):
    await exporter.send(make_span(1))

    def check() -> None:
        AppSettings.objects.create(app_name="desk", session_ttl_s=DAY_S)
        later = NOW_NS / 1e9 + 3 * DAY_S
        expired = expiry.filter_by_age(AgentSession.objects.all(), expiry.Age.EXPIRED, later)
        assert expired.count() == 1
        report = purge.purge(purge.PurgeFilter(expired=True), now=later)
        assert (report.sessions, Span.objects.count()) == (1, 0)

    await sync_to_async(check)()


async def test_traced_session_is_deleted_and_restored(exporter):
    await exporter.send(make_span(1))

    def check() -> None:
        session = AgentSession.objects.get()
        batch = deletion.delete([session.pk]).batch
        assert batch is not None
        assert AgentSession.objects.get().realm.startswith(realms.DELETED)
        deletion.undo(batch.id)
        assert AgentSession.objects.get().realm == realms.TRACED

    await sync_to_async(check)()


async def test_traced_session_cannot_be_changed(exporter):
    await exporter.send(make_span(1))
    session = await AgentSession.objects.aget()
    with pytest.raises(BadInput, match="is read out of received traces and is read-only"):
        realms.refuse_read_only(session)


async def test_traced_sessions_are_listed_on_request_only(web, exporter):
    await exporter.send(make_span(1))
    for query, is_listed in (("", False), ("is:traced", True), ("origin:trace", True), ("is:eval", False)):
        page = parse((await web.get("/sessions/", params={"q": query})).content)
        assert ("desk" in page.one("main").text) == is_listed, query


async def test_app_of_a_traced_session_has_a_page(exporter, async_client):
    await exporter.send(make_span(1))
    page = await async_client.get("/agents/desk/")
    assert page.status_code == 200
    assert "This app is not in the agents folder." in parse(page.content).text
