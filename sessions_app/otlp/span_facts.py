"""Facts about an agent in the attributes of a span, in the conventions of ADK, OpenTelemetry and OpenInference. Pure.

ADK: `google/adk/telemetry/tracing.py`. OpenTelemetry: the conventions for generative AI, 1.36 (content in events) and
later (content in `gen_ai.input.messages`). OpenInference: `llm.input_messages.0.message.role` and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sessions_app.otlp import message_forms
from sessions_app.otlp.message_forms import Content, as_list

UNSPECIFIED = "<not specified>"
"""ADK's value for an id or a result that it does not know."""

CONTENT_ATTRIBUTES = frozenset(
    {
        *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"),
        *("gen_ai.tool.definitions", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
        *("gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"),
        *("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response", "input.value", "output.value"),
    }
)
"""Attributes with content of conversations, which may be long."""

_CONVERSATION = ("gen_ai.conversation.id", "gcp.vertex.agent.session_id", "session.id")
_USER = ("user.id", "enduser.id")
_AGENT = ("gen_ai.agent.name", "agent.name", "gen_ai.workflow.name")
_MODEL = ("gen_ai.request.model", "llm.model_name", "gen_ai.response.model")
_TOOL = ("gen_ai.tool.name", "tool.name")
_CALL_ID = ("gen_ai.tool.call.id", "tool_call.id", "tool.id")
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "gcp.vertex.agent.tool_call_args",
    "tool.parameters",
    "input.value",
)
_RESULT = ("gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "output.value")
_TOKENS = {
    "promptTokenCount": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "candidatesTokenCount": (
        *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        "llm.token_count.completion",
    ),
    "cachedContentTokenCount": (
        *("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"),
    ),
    "thoughtsTokenCount": (
        *("gen_ai.usage.reasoning.output_tokens", "llm.token_count.completion_details.reasoning"),
    ),
    "totalTokenCount": ("llm.token_count.total",),
}
_MAX_TOKENS = 2**31 - 1


@dataclass(frozen=True)
class SpanFacts:
    """Facts about an agent in a span.

    Attributes:
        attributes: of the span, as stored.
        events: of the span, and records of the log with its id, as stored.
    """

    attributes: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]] = ()

    @property
    def conversation(self) -> str:
        """Id of the conversation; empty if unknown."""
        return self._first_text(_CONVERSATION)

    @property
    def user(self) -> str:
        """Id of the user; empty if unknown."""
        return self._first_text(_USER)

    @property
    def agent(self) -> str:
        """Name of the agent; empty if unknown."""
        return self._first_text(_AGENT)

    @property
    def model(self) -> str:
        """Name of the model; empty if unknown."""
        return self._first_text(_MODEL)

    @property
    def tool(self) -> str:
        """Name of the tool; empty if unknown."""
        return self._first_text(_TOOL)

    @property
    def call_id(self) -> str:
        """Id of the tool call; empty if unknown."""
        return self._first_text(_CALL_ID)

    @property
    def error_type(self) -> str:
        """Type of the error; empty if unknown."""
        return self._first_text(("error.type", "exception.type"))

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the tool call; empty if unknown."""
        value = message_forms.parse_if_json(self._first(_ARGUMENTS))
        return value if isinstance(value, dict) else {} if value in (None, "", "N/A") else {"input": value}

    @property
    def result(self) -> dict[str, Any] | None:
        """Result of the tool call; None if unknown."""
        value = message_forms.parse_if_json(self._first(_RESULT))
        if value in (None, "", {}, UNSPECIFIED, {"result": UNSPECIFIED}):
            return None
        return value if isinstance(value, dict) else {"result": value}

    @property
    def usage(self) -> dict[str, int]:
        """Tokens, by the fields of an event's usage metadata."""
        counts = {field: self._first_count(names) for field, names in _TOKENS.items()}
        total = counts["promptTokenCount"] + counts["candidatesTokenCount"]
        counts["totalTokenCount"] = min(counts["totalTokenCount"] or total, _MAX_TOKENS)
        return {field: count for field, count in counts.items() if count}

    @cached_property
    def input(self) -> list[Content]:
        """Contents of the request to the model, oldest first; empty if unknown."""
        request = self._request
        return (
            message_forms.read_messages(self._content("gen_ai.input.messages"))
            or message_forms.read_adk_contents(request.get("contents"))
            or message_forms.read_messages(self._openinference("llm.input_messages"))
            or message_forms.read_message_events(self.events)
            or message_forms.read_text(self.attributes.get("input.value"), "user")
        )

    @cached_property
    def output(self) -> Content | None:
        """Content of the response of the model; None if unknown."""
        response = message_forms.parse_if_json(self.attributes.get("gcp.vertex.agent.llm_response"))
        contents = (
            message_forms.read_messages(self._content("gen_ai.output.messages"))
            or message_forms.read_adk_contents(
                [response.get("content")] if isinstance(response, dict) else []
            )
            or message_forms.read_messages(self._openinference("llm.output_messages"))
            or message_forms.read_choice_events(self.events)
            or message_forms.read_text(self.attributes.get("output.value"), "model")
        )
        return {"role": "model", "parts": contents[0]["parts"]} if contents else None

    @cached_property
    def instruction(self) -> str:
        """Instruction of the model; empty if unknown."""
        given = self._content("gen_ai.system_instructions")
        config = self._request.get("config")
        if given is None and isinstance(config, dict):
            given = config.get("system_instruction")
        return (
            message_forms.read_instruction(given)
            or message_forms.read_system_events(self.events)
            or message_forms.read_system_messages(self._openinference("llm.input_messages"))
            or message_forms.read_system_messages(self._content("gen_ai.input.messages"))
        )

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """Declarations of the tools of the model; empty if unknown."""
        given = self._content("gen_ai.tool.definitions")
        config = self._request.get("config")
        if given is None and isinstance(config, dict):
            groups = [group for group in as_list(config.get("tools")) if isinstance(group, dict)]
            given = [tool for group in groups for tool in as_list(group.get("function_declarations"))]
        return [tool for tool in given if isinstance(tool, dict)] if isinstance(given, list) else []

    def merge(self, inner: SpanFacts) -> SpanFacts:
        """Return the facts of this span and of one inside it; this one's attributes win."""
        return SpanFacts({**inner.attributes, **self.attributes}, (*self.events, *inner.events))

    @cached_property
    def _request(self) -> dict[str, Any]:
        request = message_forms.parse_if_json(self.attributes.get("gcp.vertex.agent.llm_request"))
        return request if isinstance(request, dict) else {}

    def _content(self, name: str) -> Any:
        """Return an attribute with content: of the span or, if content is exported with logs, of an event."""
        for attributes in self._attribute_groups():
            if name in attributes:
                return message_forms.parse_if_json(attributes[name])
        return None

    def _attribute_groups(self) -> Iterator[Mapping[str, Any]]:
        yield self.attributes
        for event in self.events:
            if isinstance(attributes := event.get("attributes"), dict):
                yield attributes

    def _openinference(self, prefix: str) -> list[dict[str, Any]]:
        """Return the messages that flat attributes such as `llm.input_messages.0.message.role` hold."""
        flat = {
            name.removeprefix(f"{prefix}."): value
            for name, value in self.attributes.items()
            if name.startswith(f"{prefix}.")
        }
        return (
            [item["message"] for item in _unflatten(flat) if isinstance(item.get("message"), dict)]
            if flat
            else []
        )

    def _first(self, names: Iterable[str]) -> Any:
        return next((value for name in names if (value := self.attributes.get(name)) not in (None, "")), None)

    def _first_text(self, names: Iterable[str]) -> str:
        value = self._first(names)
        return "" if value in (None, UNSPECIFIED) or isinstance(value, dict | list) else str(value)

    def _first_count(self, names: Iterable[str]) -> int:
        with suppress(TypeError, ValueError, OverflowError):
            return min(max(int(self._first(names) or 0), 0), _MAX_TOKENS)
        return 0


def _unflatten(flat: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the list that flat names hold: `0.message.role` is the role in the message in its first item."""
    root: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = name.split(".")[:12]
        parent = root
        for group in groups:
            inner = parent.setdefault(group, {})
            parent = inner if isinstance(inner, dict) else {}
        parent[last] = value
    return [item for item in _as_lists(root) if isinstance(item, dict)] if all(map(str.isdigit, root)) else []


def _as_lists(value: Any) -> Any:
    """Return a nested dict with dicts of numbered items as lists."""
    if not isinstance(value, dict):
        return value
    converted = {name: _as_lists(item) for name, item in value.items()}
    if converted and all(name.isdecimal() and len(name) < 6 for name in converted):
        return [converted[name] for name in sorted(converted, key=int)]
    return converted


def decode_facts(attributes: str, events: str) -> SpanFacts:
    """Return the facts of a stored span."""
    return SpanFacts(json.loads(attributes), json.loads(events))
