"""Differences between the ADK servers of Python, Go, Java, JavaScript and Rust, mapped to Python's wire form. Pure.

Data is neither validated nor dropped: names are converted, times become seconds, bytes URL-safe base64, untagged parts
get tags; fields that ADK's models do not have move to `customMetadata` (`sessions_app.transfer.readers.normalise`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.errors import BadInput
from sessions_app.events.timestamps import parse_timestamp
from sessions_app.transfer.readers import rust
from sessions_app.transfer.readers.normalization import normalize_event, removed_keys

LANGUAGES = {"javascript": "js", "typescript": "js", "node": "js", "nodejs": "js", "golang": "go"}
"""Other names that a server may use for its language."""

MAX_ERROR = 2_000
"""Most characters of a server's error message."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Properties of a language's server.

    Attributes:
        has_id_in_body: the id of a new session stands in the body, else in the path.
        run_fields: fields of `/run_sse` that it accepts beside app, user, session, message and `streaming`.
        can_patch_state: it can change the state of a session outside a run.
        accepts_events: a session can be created with events.
        has_tags: parts of contents name their kind; otherwise it follows from their fields.
        reports_failures_as_events: an exception of an agent arrives as an event, without an error after it.
        has_live_runs: it has a socket `/run_live`.
    """

    has_id_in_body: bool = False
    run_fields: frozenset[str] = frozenset({"stateDelta"})
    can_patch_state: bool = False
    accepts_events: bool = False
    has_tags: bool = True
    reports_failures_as_events: bool = False
    has_live_runs: bool = True


PYTHON = Dialect(
    has_id_in_body=True,
    run_fields=frozenset({"stateDelta", "invocationId", "customMetadata"}),
    can_patch_state=True,
    accepts_events=True,
)
OTHERS = Dialect()
JAVASCRIPT = Dialect(reports_failures_as_events=True, has_live_runs=False)
RUST = Dialect(has_tags=False, has_live_runs=False)

DIALECTS = {"python": PYTHON, "js": JAVASCRIPT, "rust": RUST}
"""Go refuses unknown fields; Java and JavaScript ignore them. All get the fields that all understand."""

RUN_FIELDS = {
    "state_delta": "stateDelta",
    "invocation_id": "invocationId",
    "custom_metadata": "customMetadata",
}


@dataclass(frozen=True, slots=True)
class RemoteEvent:
    """An event of a remote server.

    Attributes:
        wire: the event in Python's wire form; a missing time is its arrival, or 0 in a session.
        removed: keys of its delta that were removed, not set to None.
        has_time: the server sent its time.
    """

    wire: dict[str, Any]
    removed: frozenset[str] = frozenset()
    has_time: bool = True

    @property
    def id(self) -> str:
        """ADK's id of the event."""
        return str(self.wire["id"])

    @property
    def is_partial(self) -> bool:
        """Tell whether this is a chunk of a later event, which no session contains."""
        return bool(self.wire.get("partial"))


@dataclass(frozen=True, slots=True)
class ReportedFailure:
    """An error that a server reports in a stream."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class RemoteSession:
    """A session of a remote server; `events` are its JSON, which `parse_event` converts."""

    id: str
    user_id: str
    state: dict[str, Any]
    updated_at: float
    events: list[dict[str, Any]]


def language_of(version: Any, headers: Mapping[str, str]) -> str:
    """Return a server's language from `/version`, else from the headers of its framework; empty if unknown."""
    language = version.get("language") if isinstance(version, dict) else None
    if isinstance(language, str) and language:
        return LANGUAGES.get(language.lower(), language.lower())
    if "express" in headers.get("x-powered-by", "").lower():
        return "js"
    return "python" if "uvicorn" in headers.get("server", "").lower() else ""


def dialect_of(language: str) -> Dialect:
    """Return the dialect of a language; unknown languages get the most common one."""
    return DIALECTS.get(language, OTHERS)


def parse_app_names(answer: Any) -> tuple[str, ...]:
    """Return the names in a response of `/list-apps`, sorted.

    Raises:
        ValueError: no ADK server sends this response.
    """
    if isinstance(answer, dict):
        listed = answer.get("apps")
        answer = [app.get("name") if isinstance(app, dict) else app for app in listed or []]
    if answer is None:  # Go's empty list
        return ()
    if not isinstance(answer, list) or not all(isinstance(name, str) for name in answer):
        raise ValueError("an ADK server sends a list of names")
    return tuple(sorted(set(answer)))


def run_body(
    dialect: Dialect, app: str, user_id: str, session_id: str, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of `/run_sse` and `/run` for the request in a run's row.

    Raises:
        BadInput: the request has options that this server does not accept.
    """
    config = dict(request.get("run_config") or {})
    values = {name: request.get(name) for name in RUN_FIELDS}
    values["custom_metadata"] = config.pop("custom_metadata", None) or values["custom_metadata"]
    extra = {RUN_FIELDS[name]: value for name, value in values.items() if value}
    unsupported = sorted(
        [*(extra.keys() - dialect.run_fields), *(name for name, value in config.items() if value is not None)]
    )
    if unsupported:
        raise BadInput(
            f"This remote server does not accept {', '.join(unsupported)}.",
            hint="Remove it from the RunConfig, or run the agent in a folder of this server.",
        )
    message = request.get("new_message")
    body = {
        "appName": app,
        "userId": user_id,
        "sessionId": session_id,
        "streaming": bool(request.get("streaming")),
    }
    if message:
        body["newMessage"] = _standard_message(message)
    if dialect is PYTHON:
        # Otherwise an event with an artifact arrives as two events with the same id.
        body["functionCallEventId"] = "whole"
    return body | extra


def parse_session(session: Mapping[str, Any]) -> RemoteSession:
    """Return a session of a response, in the spelling of any language.

    Raises:
        ValueError: the value is not a session.
    """
    folded = {str(key).replace("_", "").lower(): value for key, value in session.items()}
    name, user_id = folded.get("id", folded.get("sessionid")), folded.get("userid")
    if not isinstance(name, str) or not isinstance(user_id, str):
        raise ValueError("a session has an id and a userId")
    events = folded.get("events") or []
    state = folded.get("state") or {}
    if not isinstance(events, list) or not isinstance(state, dict):
        raise ValueError("the events of a session are a list, its state is an object")
    return RemoteSession(
        id=name,
        user_id=user_id,
        state=state,
        updated_at=_parse_time(folded.get("lastupdatetime", folded.get("updatedat"))),
        events=[event for event in events if isinstance(event, dict)],
    )


def parse_session_list(answer: Any) -> list[dict[str, Any]]:
    """Return the sessions of a list response: an array, null, or an object with an array.

    Raises:
        ValueError: the response has another form.
    """
    listed = answer.get("sessions") if isinstance(answer, dict) else answer
    if listed is None:
        return []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ValueError("sessions are listed in an array")
    return listed


def parse_event(dialect: Dialect, raw: Mapping[str, Any], arrived_at: float, number: int = 0) -> RemoteEvent:
    """Return an event in Python's wire form.

    Args:
        arrived_at: time of the event if the server sends none.
        number: position in its session, for an event without an id.
    """
    spelled = raw if dialect.has_tags else _tag_parts(raw)
    wire, _ = normalize_event(spelled)
    removed = removed_keys(wire)
    has_time = "timestamp" in wire
    wire.setdefault("timestamp", arrived_at)
    if not wire.get("id"):
        wire["id"] = f"event-{number}"
    return RemoteEvent(wire, removed, has_time)


def event_id(raw: Mapping[str, Any], number: int) -> str:
    """Return the id of an event from its server, or the one that `parse_event` assigns, without parsing the rest."""
    value = raw.get("id", raw.get("Id", raw.get("ID")))
    return str(value) if value else f"event-{number}"


def parse_frame(dialect: Dialect, name: str, data: str) -> RemoteEvent | ReportedFailure | None:
    """Return the event or failure in a frame of `/run_sse`; None for an empty one.

    Args:
        name: name of the frame, if the stream has names.

    Raises:
        ValueError: the frame is not a JSON object.
    """
    if not data.strip():
        return None
    try:
        frame = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if frame is None:
        return None
    if not isinstance(frame, dict):
        raise ValueError("a frame is an object")
    if name == "error" or ("error" in frame and "author" not in frame):
        return parse_failure(frame)
    return parse_event(dialect, frame, time.time())


def parse_failure(value: Any) -> ReportedFailure:
    """Return the error in a response or frame.

    Python sends `detail`, or `error` with `error_details`; Go and Rust plain text; Java Spring's fields; JavaScript
    `error`.
    """
    if isinstance(value, dict):
        details = value.get("error_details")
        details = details if isinstance(details, dict) else {}
        text = (
            details.get("error_message")
            or value.get("detail")
            or value.get("message")
            or value.get("error")
            or value
        )
        kind = details.get("error_type") or ""
        if not kind and isinstance(value.get("error"), str):
            head, separator, _ = value["error"].partition(": ")
            kind = head if separator and head.isidentifier() else ""
            text = (
                text[len(kind) + 2 :] if kind and isinstance(text, str) and text == value["error"] else text
            )
        return ReportedFailure(str(kind) or "RemoteError", _shorten(text))
    return ReportedFailure("RemoteError", _shorten(value))


def error_text(body: bytes) -> str:
    """Return the message of an error response; empty if it has none."""
    text = body.decode(errors="replace").strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        is_page = text.startswith("<")  # an HTML page is no message
        return "" if is_page else _shorten(text)
    return parse_failure(value).message if value else ""


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_ERROR else text[: MAX_ERROR - 1] + "…"


def _tag_parts(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event of Rust's with tagged parts and with the fields of its model response at the top level."""
    inner = raw.get("llm_response")
    spelled = {**(inner if isinstance(inner, dict) else {}), **raw}
    spelled.pop("llm_response", None)
    content = spelled.get("content")
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        spelled["content"] = {**content, "parts": [rust.convert_part(part) for part in content["parts"]]}
    return spelled


def _standard_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in the spelling and base64 alphabet that every language reads."""
    parts = message.get("parts")
    standard_parts = (
        [_standard_part(part) if isinstance(part, Mapping) else part for part in parts if part]
        if isinstance(parts, list)
        else []
    )
    return {"role": message.get("role") or "user", "parts": standard_parts}


def _standard_part(part: Mapping[str, Any]) -> dict[str, Any]:
    names = {"inline_data": "inlineData", "file_data": "fileData", "function_response": "functionResponse"}
    standard = {names.get(key, key): item for key, item in part.items()}
    if "inlineData" in standard:
        standard["inlineData"] = _standard_blob(standard["inlineData"])
    return standard


def _standard_blob(blob: Any) -> Any:
    if not isinstance(blob, Mapping):
        return blob
    names = {"mime_type": "mimeType", "display_name": "displayName"}
    spelled = {names.get(key, key): item for key, item in blob.items()}
    if isinstance(data := spelled.get("data"), str):
        text = data.replace("-", "+").replace("_", "/").rstrip("=")
        spelled["data"] = text + "=" * (-len(text) % 4)
    return spelled


def _parse_time(value: Any) -> float:
    try:
        return parse_timestamp(value) or 0.0
    except ValueError:
        return 0.0
