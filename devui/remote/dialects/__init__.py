"""Dialects: differences between the ADK servers of several languages, mapped to Python's wire form.

Each language is a module of this package. An installed package adds one by an entry point of the group
`devui.dialects`, which names a `Dialect` or a module that has one; `examples/plugin/` has one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from devui.remote.responses import RemoteEvent, ReportedFailure, event_id, parse_failure
from sessions_app import plugins
from sessions_app.store.errors import BadInput
from sessions_app.store.text_input import parse_json
from sessions_app.transfer.readers.normalization import normalize_event, removed_keys

RUN_FIELDS = {
    "state_delta": "stateDelta",
    "invocation_id": "invocationId",
    "custom_metadata": "customMetadata",
}

CAMEL_CASE = {
    "display_name": "displayName",
    "file_data": "fileData",
    "file_uri": "fileUri",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "mime_type": "mimeType",
}
"""Fields of a message's parts that not every server accepts in snake case."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """ADK's server of one language. The defaults describe what all of them accept; a subclass overrides methods.

    Attributes:
        names: the language's names in `/version`, in lower case; the first is its name in DevUI's API.
        label: its name for display.
        root_path: root of its API, if an address does not contain it.
        has_id_in_body: the body of a request that creates a session has its id; otherwise the path has it.
        run_fields: fields of `/run_sse` that it accepts besides app, user, session, message and `streaming`.
        can_patch_state: it can change the state of a session outside a run.
        accepts_events: a session can be created with events.
        has_live_runs: it has a socket `/run_live`.
    """

    names: tuple[str, ...] = ("",)
    label: str = ""
    root_path: str = ""
    has_id_in_body: bool = False
    run_fields: frozenset[str] = frozenset({"stateDelta"})
    can_patch_state: bool = False
    accepts_events: bool = False
    has_live_runs: bool = True

    def __post_init__(self) -> None:
        """Check the names.

        Raises:
            ValueError: the dialect has no names.
            TypeError: the label is not a text.
        """
        if not self.names or not all(isinstance(name, str) for name in self.names):
            raise ValueError(f"a dialect needs names that are texts, not {self.names!r}")
        plugins.require_texts(self, "label")

    @property
    def language(self) -> str:
        """The language's name in DevUI's API; empty if unknown."""
        return self.names[0]

    def matches(self, language: str, headers: Mapping[str, str]) -> bool:
        """Tell whether a server is of this language.

        Args:
            language: from its `/version`, in lower case; empty if it does not tell.
            headers: of its response to `/list-apps`.
        """
        return language in self.names

    def convert_event(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an event in fields of ADK's; names, times and base64 alphabets are converted afterwards."""
        return event

    def find_failure(self, event: RemoteEvent) -> ReportedFailure | None:
        """Return the failure that an event reports, if the server sends no error frame for it."""
        return None

    def run_body(self, app: str, user_id: str, session_id: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of `/run_sse` and `/run` for the request in a run's row.

        Raises:
            BadInput: the request has options that this server does not accept.
        """
        config = dict(request.get("run_config") or {})
        values = {name: request.get(name) for name in RUN_FIELDS}
        values["custom_metadata"] = config.pop("custom_metadata", None) or values["custom_metadata"]
        extra = {RUN_FIELDS[name]: value for name, value in values.items() if value}
        unsupported = [
            *(extra.keys() - self.run_fields),
            *(name for name in config if config[name] is not None),
        ]
        if unsupported:
            raise BadInput(
                f"This remote server does not accept {', '.join(sorted(unsupported))}.",
                hint="Remove it from the RunConfig, or run the agent in a folder of this server.",
            )
        body = {
            "appName": app,
            "userId": user_id,
            "sessionId": session_id,
            "streaming": bool(request.get("streaming")),
        }
        if message := request.get("new_message"):
            parts = message.get("parts")
            body["newMessage"] = {
                "role": message.get("role") or "user",
                "parts": [_standard_part(part) for part in parts if part] if isinstance(parts, list) else [],
            }
        return body | extra

    def parse_event(self, raw: Mapping[str, Any], arrived_at: float, number: int = 0) -> RemoteEvent:
        """Return an event in Python's wire form.

        Args:
            arrived_at: time of the event if the server sends none.
            number: position in its session, for an event without an id.

        Raises:
            ValueError: the event cannot be converted.
        """
        try:
            wire, _ = normalize_event(self.convert_event(raw))
        except plugins.FAILURES as error:
            raise ValueError(f"the event is not one of {self.label or 'ADK'}: {error!r}") from error
        removed = removed_keys(wire)
        wire.setdefault("timestamp", arrived_at)
        if not wire.get("id"):
            wire["id"] = event_id({}, number)
        return RemoteEvent(wire, removed)

    def parse_frame(self, name: str, data: str) -> RemoteEvent | ReportedFailure | None:
        """Return the event or failure in a frame of `/run_sse`; None for an empty one.

        Args:
            name: name of the frame, if the stream has names.

        Raises:
            ValueError: the frame is not a JSON object.
        """
        if not data.strip():
            return None
        try:
            frame = parse_json(data)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if frame is None:
            return None
        if not isinstance(frame, dict):
            raise ValueError("a frame is an object")
        if name == "error" or ("error" in frame and "author" not in frame):
            return parse_failure(frame)
        return self.parse_event(frame, time.time())


_DIALECTS = plugins.Registry(Dialect, plugins.DIALECTS, lambda: plugins.import_modules(__name__))


def all_dialects() -> tuple[Dialect, ...]:
    """Return the dialects of installed packages, then DevUI's own."""
    return (*_DIALECTS.added(), *_DIALECTS.own())


def detect_dialect(version: Any, headers: Mapping[str, str]) -> Dialect:
    """Return a server's dialect by its response to `/version` and its headers.

    A server of an unknown language gets the defaults. A dialect that raises is logged and skipped.
    """
    language = version.get("language") if isinstance(version, dict) else None
    language = language.lower() if isinstance(language, str) else ""
    for dialect in all_dialects():
        try:
            if dialect.matches(language, headers):
                return dialect
        except plugins.FAILURES:
            log.exception("The dialect %r failed.", dialect.label)
    return Dialect(names=(language,))


def _standard_part(part: Any) -> Any:
    """Return a part in the spelling and base64 alphabet that every language reads."""
    if not isinstance(part, Mapping):
        return part
    standard = {key: _camel_case(item) if key in _FILES else item for key, item in _camel_case(part).items()}
    blob = standard.get("inlineData")
    if isinstance(blob, dict) and isinstance(data := blob.get("data"), str):
        text = data.replace("-", "+").replace("_", "/").rstrip("=")
        blob["data"] = text + "=" * (-len(text) % 4)
    return standard


def _camel_case(fields: Any) -> Any:
    if not isinstance(fields, Mapping):
        return fields
    return {CAMEL_CASE.get(key, key): item for key, item in fields.items()}


_FILES = frozenset({"inlineData", "fileData"})
