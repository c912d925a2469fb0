"""The kind of a span: what it measures, by its attributes or its name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessions_app.store.models import Span

_BY_NAME = {
    "invocation": Span.Kind.INVOCATION,
    "invoke_workflow": Span.Kind.INVOCATION,
    "invoke_agent": Span.Kind.AGENT,
    "agent_run": Span.Kind.AGENT,
    "call_llm": Span.Kind.MODEL,
    "generate_content": Span.Kind.MODEL,
    "send_data": Span.Kind.MODEL,
    "execute_tool": Span.Kind.TOOL,
}
"""Kinds by the first word of ADK's names."""

_BY_OPERATION = {
    "invoke_workflow": Span.Kind.INVOCATION,
    "invoke_agent": Span.Kind.AGENT,
    "create_agent": Span.Kind.AGENT,
    "chat": Span.Kind.MODEL,
    "generate_content": Span.Kind.MODEL,
    "text_completion": Span.Kind.MODEL,
    "execute_tool": Span.Kind.TOOL,
}
"""Kinds by `gen_ai.operation.name` of OpenTelemetry's conventions."""

_BY_OPENINFERENCE = {"AGENT": Span.Kind.AGENT, "LLM": Span.Kind.MODEL, "TOOL": Span.Kind.TOOL}
"""Kinds by `openinference.span.kind`."""

MERGED_TOOLS = "(merged tools)"
"""Name of the tool in ADK's span around the results of calls that ran at once."""


def recognize_span_kind(name: str, attributes: Mapping[str, Any]) -> Span.Kind:
    """Return the kind of a span."""
    if attributes.get("gen_ai.tool.name") == MERGED_TOOLS:
        return Span.Kind.OTHER
    operation = str(attributes.get("gen_ai.operation.name"))
    openinference = str(attributes.get("openinference.span.kind")).upper()
    by_attributes = _BY_OPERATION.get(operation) or _BY_OPENINFERENCE.get(openinference)
    return by_attributes or _BY_NAME.get(name.split(" ")[0].split("[")[0], Span.Kind.OTHER)
