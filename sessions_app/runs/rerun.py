"""What a run was asked, to be asked once more."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import Q

from sessions_app.errors import BadInput
from sessions_app.models import Event, Run

REPEATABLE = Q(request__contains='"parts"') & ~Q(request__contains='"functionResponse"')
"""Runs whose request holds a message that can be sent once more: what `can_repeat` tells of one."""


def rerun_request(run: Run) -> dict[str, Any]:
    """Return the request of a run that does as another one did. Files are read from the event that holds them.

    Raises:
        BadInput: it was an answer, which is given once, or what it was asked is not known.
    """
    request: dict[str, Any] = json.loads(run.request)
    parts = _parts(request.get("new_message"))
    if any("functionResponse" in part for part in parts):
        raise BadInput("An answer is given once.", hint="Write a message, or rewind to before the question.")
    if any("data" not in part.get("inlineData", {"data": ""}) for part in parts):
        request["new_message"] = _message_of_event(run)
    if not request.get("new_message") and not request.get("invocation_id"):
        raise BadInput("It is not known what this run was asked.", hint="Write the message again.")
    return request


def can_repeat(request: str) -> bool:
    """Tell whether a request, as its row has it, holds a message that can be sent once more."""
    return '"functionResponse"' not in request and '"parts"' in request


def _message_of_event(run: Run) -> dict[str, Any] | None:
    first = Event.objects.filter(
        session_id=run.session_id, seq=(run.first_seq or 0) + 1, author="user"
    ).first()
    content = json.loads(first.data).get("content") if first else None
    return content if isinstance(content, dict) else None


def _parts(message: Any) -> list[dict[str, Any]]:
    parts = message.get("parts") if isinstance(message, dict) else None
    return [part for part in parts or [] if isinstance(part, dict)]
