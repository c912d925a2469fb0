"""Spans and log records in OTLP's JSON, made by hand, and an exporter of them."""

from __future__ import annotations

import time
from typing import Any

import httpx

TRACE = "0af7651916cd43dd8448eb211c80319c"
NOW_NS = int(time.time()) * 10**9


def span_id(number: int) -> str:
    return f"{number:016x}"


def make_span(
    number: int = 1, name: str = "work", *, parent: int = 0, at: float = 0.0, **fields: Any
) -> dict[str, Any]:
    """Return a span in JSON. `at`: start, in seconds after now; `attributes` is a dict."""
    attributes = fields.pop("attributes", {})
    started_ns = NOW_NS + round(at * 1e9)
    span = {
        "traceId": TRACE,
        "spanId": span_id(number),
        "name": name,
        "startTimeUnixNano": str(started_ns),
        "endTimeUnixNano": str(started_ns + 10**9),
        "attributes": make_attributes(attributes),
        **({"parentSpanId": span_id(parent)} if parent else {}),
    }
    return span | fields


def make_attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": make_value(value)} for key, value in attributes.items()]


def make_value(value: Any) -> dict[str, Any]:
    """Return a value in OTLP's JSON."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [make_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": make_attributes(value)}}
    return {"stringValue": value}


def make_record(number: int = 1, body: Any = "", name: str = "", **attributes: Any) -> dict[str, Any]:
    """Return a log record of the span `number` in JSON."""
    return {
        "traceId": TRACE,
        "spanId": span_id(number),
        "timeUnixNano": str(NOW_NS),
        "severityNumber": 13,
        "eventName": name,
        "body": make_value(body),
        "attributes": make_attributes(attributes),
    }


def wrap_spans(*spans: dict[str, Any], service: str = "desk") -> dict[str, Any]:
    """Return a request with spans."""
    resource = {"attributes": make_attributes({"service.name": service} if service else {})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


class Exporter:
    """Sends spans and log records to DevUI as JSON."""

    def __init__(self, web: httpx.AsyncClient) -> None:
        self.web = web

    async def send(self, *spans: dict[str, Any], service: str = "desk") -> dict[str, Any]:
        """Send spans, and return the response."""
        response = await self.web.post("/v1/traces", json=wrap_spans(*spans, service=service))
        assert response.status_code == 200, response.text
        return response.json()

    async def send_records(self, *records: dict[str, Any], service: str = "desk") -> dict[str, Any]:
        """Send log records, and return the response."""
        resource = {"attributes": make_attributes({"service.name": service})}
        body = {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": list(records)}]}]}
        response = await self.web.post("/v1/logs", json=body)
        assert response.status_code == 200, response.text
        return response.json()
