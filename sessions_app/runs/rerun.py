"""Request of an earlier run, to run it again."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import Q

from sessions_app.store.errors import BadInput
from sessions_app.store.models import Event, Run

REPEATABLE = Q(request__contains='"parts"') & ~Q(request__contains='"functionResponse"')
"""Condition in SQL of `can_repeat`."""


def rerun_request(run: Run) -> dict[str, Any]:
    """Return the request that repeats a run. Files are read from the event of the message.

    Raises:
        BadInput: the run carried an answer, or its message is unknown.
    """
    request: dict[str, Any] = json.loads(run.request)
    parts = _message_parts(request.get("new_message"))
    if any("functionResponse" in part for part in parts):
        raise BadInput(
            "A question can be answered only once.", hint="Send a message, or rewind to before the question."
        )
    if any("data" not in part.get("inlineData", {"data": ""}) for part in parts):
        request["new_message"] = _find_event_message(run)
    if not request.get("new_message") and not request.get("invocation_id"):
        raise BadInput("The message of this run is unknown.", hint="Write the message again.")
    return request


def can_repeat(request: str) -> bool:
    """Tell whether a stored request contains a message that can be sent again."""
    return '"functionResponse"' not in request and '"parts"' in request


def _find_event_message(run: Run) -> dict[str, Any] | None:
    first = Event.objects.filter(
        session_id=run.session_id, seq=(run.first_seq or 0) + 1, author="user"
    ).first()
    content = json.loads(first.data).get("content") if first else None
    return content if isinstance(content, dict) else None


def _message_parts(message: Any) -> list[dict[str, Any]]:
    parts = message.get("parts") if isinstance(message, dict) else None
    return [part for part in parts or [] if isinstance(part, dict)]
