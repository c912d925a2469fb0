"""The audit log: who did what to which object, when and from where. Entries are only added.

The guard writes an entry for each request whose rule has an action, after the response; commands write their own.
"""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from devui.accounts import targets
from devui.accounts.models import AuditEntry
from sessions_app.roles import SIGN_IN, AccessRule
from sessions_app.store import scopes

REFUSED_STATUSES = frozenset({401, 403, 429})
WRONG_PASSWORD = 422
"""Status with which a wrong password is refused."""

MAX_TEXT = 1_000
"""Characters of an object's id, and of an app, that are stored."""

MAX_NAME = 200
"""Characters of a person's name that are stored."""

FIELDS = ("at", "person", "token", "action", "kind", "object_id", "app", "address", "outcome", "status")
"""Fields of an exported entry."""


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """A request that the audit log lists.

    Attributes:
        route, kwargs: what its address resolves to.
        objects, app: ids of the objects, and the app, that its view names instead.
    """

    rule: AccessRule
    person: str
    address: str
    status: int
    token: str = ""
    route: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    objects: str = ""
    app: str = ""


def record_request(request: AuditedRequest) -> None:
    """Store an entry for a request."""
    ids = {name: value for name, value in request.kwargs.items() if name not in {"app_name", "app"}}
    AuditEntry.objects.create(
        at=time.time(),
        person=scopes.clean_text(request.person)[:MAX_NAME],
        token=request.token,
        action=request.rule.action,
        kind=request.rule.kind,
        object_id=_clean_name(request.objects or "/".join(map(str, ids.values()))),
        app=_clean_name(request.app or targets.find_app(request.route, request.kwargs)),
        address=request.address,
        status=request.status,
        outcome=_judge_outcome(request.rule, request.status),
    )


def record_command(action: str, kind: str, object_id: str = "") -> None:
    """Store an entry for a command of the server's machine, with the name of its system user."""
    AuditEntry.objects.create(
        at=time.time(),
        person=f"{_system_user()} (command line)",
        action=action,
        kind=kind,
        object_id=object_id[:MAX_TEXT],
        status=200,
        outcome=AuditEntry.Outcome.DONE,
    )


def _clean_name(text: str) -> str:
    """Return a text that the log can hold: requests that are refused may name anything."""
    return scopes.clean_text(text)[:MAX_TEXT]


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # containers run with numbers that have no name
        return str(os.getuid())


def filter_entries(
    person: str, action: str, object_text: str, since: float | None, until: float | None
) -> QuerySet[AuditEntry]:
    """Return the entries that match; empty criteria match all. `object_text`: kind, app or start of the id."""
    entries = AuditEntry.objects.all()
    if person:
        entries = entries.filter(person=person)
    if action:
        entries = entries.filter(action=action)
    if object_text:
        entries = (
            entries.filter(kind=object_text)
            | entries.filter(app=object_text)
            | entries.filter(object_id__startswith=object_text)
        )
    if since is not None:
        entries = entries.filter(at__gte=since)
    if until is not None:
        entries = entries.filter(at__lt=until)
    return entries


def _judge_outcome(rule: AccessRule, status: int) -> AuditEntry.Outcome:
    is_wrong_password = rule.action == SIGN_IN.action and status == WRONG_PASSWORD
    if status in REFUSED_STATUSES or is_wrong_password:
        return AuditEntry.Outcome.REFUSED
    return AuditEntry.Outcome.DONE if status < 400 else AuditEntry.Outcome.FAILED
