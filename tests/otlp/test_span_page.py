"""The page of a span, and its JSON."""

from __future__ import annotations

import json

from asgiref.sync import sync_to_async

from sessions_app.store.models import Span
from tests.otlp.otlp_requests import NOW_NS, make_attributes, make_span, span_id
from tests.pages.html import parse


async def read_pk(number: int) -> int:
    return (await Span.objects.aget(span_id=span_id(number))).pk


async def test_span_page_shows_attributes_events_links_and_status(web, exporter):
    event = {"name": "retry", "timeUnixNano": str(NOW_NS), "attributes": make_attributes({"attempt": 2})}
    link = {"traceId": "c" * 32, "spanId": "d" * 16}
    attributes = {"vendor.unknown": "kept", "note": "<b>bold</b>", "long": "y" * 5_000}
    await exporter.send(
        make_span(1, "outer"),
        make_span(
            2,
            "inner",
            parent=1,
            attributes=attributes,
            events=[event],
            links=[link],
            status={"code": 2, "message": "no answer"},
        ),
        make_span(3, "orphan", parent=99),
    )
    response = await web.get(f"/traces/spans/{await read_pk(2)}/")
    page = parse(response.content)
    for shown in (
        "vendor.unknown",
        "kept",
        "<b>bold</b>",
        "retry",
        "attempt",
        "d" * 16,
        "no answer",
        "outer",
        "desk",
    ):
        assert shown in page.text
    assert page.one("a", href=f"/traces/spans/{await read_pk(1)}/").text == "outer"
    orphan = parse((await web.get(f"/traces/spans/{await read_pk(3)}/")).content)
    assert f"{span_id(99)} not stored" in orphan.text
    whole = (await web.get(f"/traces/spans/{await read_pk(2)}/json/")).json()
    assert whole["attributes"] == attributes
    assert whole["status"] == {"code": "error", "message": "no answer"}
    assert json.loads(page.one("pre", id="span-json").text) == whole


async def test_unknown_span_is_refused_with_a_reason(web, store):
    response = await web.get("/traces/spans/7/", headers={"Accept": "text/html"})
    assert response.status_code == 404
    assert "deleted with its session" in response.text


async def test_trace_page_leads_to_its_spans(web, exporter):
    await exporter.send(make_span(1, "outer"))
    span = await Span.objects.select_related("session").aget()
    trace = await sync_to_async(lambda: span.session.traces.get().pk)()
    page = parse((await web.get(f"/traces/{trace}/")).content)
    assert page.one("a", href=f"/traces/spans/{span.pk}/").text == "Everything about this span"
