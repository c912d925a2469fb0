"""Parse and validate request bodies of ADK's paths, in camelCase or snake_case, with the errors of ADK's server.

ADK's server uses FastAPI: an invalid body gets status 422 and a list of faults, each with `type`, `loc`, `msg` and
`input`. A body whose content type is not JSON counts as text.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from email.message import Message
from typing import Any, TypeVar

from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from sessions_app.store import text_input
from sessions_app.store.database.gc_tuning import pause_collector
from sessions_app.store.errors import BadInput, InvalidBody


class Body(BaseModel):
    """Base of ADK's request bodies (`google/adk/cli/utils/common.py`)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class CreateSession(Body):
    """Body that creates a session. ADK's own server validates `events`."""

    session_id: str | None = None
    state: dict[str, Any] | None = None
    events: list[Any] | None = None
    options: dict[str, Any] | None = None


class UpdateSession(Body):
    """Body that changes a session's state."""

    state_delta: dict[str, Any]


class RunTarget(Body):
    """The fields of a run's body that name the session; ADK's own server validates the rest."""

    app_name: str | None = None
    user_id: str
    session_id: str


T = TypeVar("T")
NO_BODY: Any = object()
"""Result of `parse` for a request without a body; null is a value."""

MAX_LEVELS = 250
"""Deepest nesting that ADK's server can return: pydantic serializes some 255 levels."""

_PARSED_BODY = "devui_parsed_body"
_thread = ThreadPoolExecutor(1, thread_name_prefix="devui-body")
"""Parses large bodies one at a time, because parsing holds the GIL."""

_ENDPOINT_KEYS = frozenset({"app_name", "user_id", "state", "session_id"})


def parse(request: HttpRequest) -> Any:
    """Return the request's body as JSON, as text if its content type is not JSON, or `NO_BODY`.

    Raises:
        InvalidBody: the body is not JSON.
        BadInput: the body is not UTF-8 text.
    """
    if not request.body:
        return NO_BODY
    try:
        return parse_json(request) if _is_json(request) else request.body.decode()
    except json.JSONDecodeError as error:
        fault = {"type": "json_invalid", "loc": ["body", error.pos], "msg": "JSON decode error", "input": {}}
        raise InvalidBody([{**fault, "ctx": {"error": error.msg}}]) from error
    except (ValueError, RecursionError) as error:  # no UTF-8, a number of too many digits, too deep
        raise BadInput("There was an error parsing the body", hint="Send JSON in UTF-8.") from error


def parse_json(request: HttpRequest) -> Any:
    """Return the request's body as JSON, whatever its content type.

    Raises:
        ValueError, RecursionError: the body is not JSON.
    """
    parsed: Future[Any] | None = request.__dict__.pop(_PARSED_BODY, None)
    return _parse_body(request) if parsed is None else parsed.result()


async def parse_in_thread(request: HttpRequest) -> None:
    """Parse the request's body in the thread for large bodies; the next call of `parse_json` uses the result."""
    parsing = _thread.submit(_parse_body, request)
    setattr(request, _PARSED_BODY, parsing)
    with suppress(Exception):  # raised by `parse_json`
        await asyncio.wrap_future(parsing)


async def read_form_in_thread(request: HttpRequest) -> None:
    """Read the request's form and files in the thread for large bodies.

    Raises:
        SuspiciousOperation, BadRequest, MultiPartParserError: see `HttpRequest.POST`.
    """
    await asyncio.wrap_future(_thread.submit(lambda: request.POST))


def _parse_body(request: HttpRequest) -> Any:
    with pause_collector():
        return text_input.parse_json(request.body)


def validate(body: Any, shape: type[T]) -> T:
    """Return a parsed body validated as the given type.

    Raises:
        InvalidBody: the body is missing or does not match.
    """
    if body is NO_BODY:
        fault = {"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}
        raise InvalidBody([fault])
    try:
        return TypeAdapter(shape).validate_python(body, from_attributes=True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        raise InvalidBody([{**fault, "loc": ["body", *fault["loc"]]} for fault in faults]) from error


def validate_optional(body: Any, shape: type[T]) -> T | None:
    """Return a parsed body validated as the given type; None if it is missing or null.

    Raises:
        InvalidBody: the body does not match.
    """
    return None if body is NO_BODY or body is None else validate(body, shape)


def refuse_deep_nesting(body: Any) -> None:
    """Refuse a body that ADK's server would store but could not return.

    Raises:
        BadInput: the body is nested deeper than `MAX_LEVELS`.
    """
    levels, level = 0, [body] if isinstance(body, dict | list) else []
    while level:
        if levels == MAX_LEVELS:
            raise BadInput(
                f"The body is nested deeper than {MAX_LEVELS} levels, which ADK's own server cannot answer with.",
                hint="Nest it less deeply, or keep it as text or as an artifact. Nothing was stored.",
            )
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        levels += 1


def refuse_options(options: dict[str, Any] | None) -> None:
    """Refuse options for the session service, which DevUI's does not have.

    Raises:
        BadInput: options were sent. The messages are those of ADK's server (`ApiServer._create_session`).
    """
    if endpoint_keys := _ENDPOINT_KEYS & set(options or ()):
        names = ", ".join(sorted(endpoint_keys))
        raise BadInput(
            f"Session options cannot contain keys already bound by the endpoint: {names}",
            hint="Send them beside `options`.",
        )
    if options:
        raise BadInput(
            "Session options are not supported by the configured session service.",
            hint="Leave `options` out.",
        )


def _is_json(request: HttpRequest) -> bool:
    header = Message()
    header["content-type"] = request.headers.get("Content-Type", "text/plain")
    subtype = header.get_content_subtype()
    return header.get_content_maintype() == "application" and (subtype == "json" or subtype.endswith("+json"))
