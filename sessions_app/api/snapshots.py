"""Sessions as ADK's REST API returns them, joined from stored JSON texts without parsing them.

Events are immutable, so a snapshot consists of a consistent read of the session's row and state, and the number of its
last event; events up to that number are read while they are sent.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db.models import QuerySet

from sessions_app import lookup
from sessions_app.store import realms, scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import SessionMissing
from sessions_app.store.ids import check_ids
from sessions_app.store.models import AgentSession, AppState, Event, Scope, SessionState, UserState
from sessions_app.store.session_key import SessionKey

BATCH = 2000
"""Events read and sent at a time."""

READ_ATTEMPTS = 5
HIDDEN_PREFIXES = ("adk-eval-session-", "___eval___session___")
"""Prefixes of session ids that ADK's evals create; ADK's list leaves them out (`google/adk/cli/cli_eval.py`)."""

TITLE_KEY = "__session_metadata__"
"""State key under which ADK's front end reads and writes a session's title."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session at a point in time: the JSON before and after its events, and the number of its last event."""

    head: str
    session_pk: int
    last_seq: int
    tail: str


def find_session(app_name: str, user_id: str, session_id: str, *, attempts: bool = False) -> AgentSession:
    """Return the session of a path; ids are stripped as in ADK. With `attempts`, include eval attempts.

    Raises:
        SessionMissing: there is no such session; worded as ADK's server words it.
        BadInput: an id cannot be stored.
    """
    key = SessionKey("", app_name, user_id, session_id.strip())
    check_ids(key)
    matching = AgentSession.objects.filter(app_name=app_name, user_id=user_id, session_id=key.session_id)
    row = matching.filter(realm="").first()
    if row is None and attempts:
        namesakes = realms.exclude_hidden(matching).exclude(realm__startswith=realms.NESTED)
        row = namesakes.order_by("-pk").first()
    if row is None:
        raise SessionMissing(
            "Session not found",
            hint=f"App {app_name!r} and user {user_id!r} have no session {key.session_id!r}.",
        )
    return row


def take_snapshot(
    app_name: str, user_id: str, session_id: str, temp: dict[str, Any] | None = None
) -> Snapshot:
    """Return a session's snapshot; `temp` are keys to add to this response, which are not stored.

    Raises:
        SessionMissing: there is no such session.
    """
    return _take_snapshot(partial(find_session, app_name, user_id, session_id, attempts=True), temp or {})


def take_snapshot_by_key(pk: int) -> Snapshot:
    """Return the snapshot of the session with a primary key.

    Raises:
        SessionMissing: there is no such session.
    """
    return _take_snapshot(partial(lookup.find_session, pk), {})


def _take_snapshot(find_row: Callable[[], AgentSession], temp: dict[str, Any]) -> Snapshot:
    for _ in range(READ_ATTEMPTS):
        row = find_row()
        text = _state_text(row, _own_keys(row), _shared_keys(row.realm, row.app_name, row.user_id), temp)
        if AgentSession.objects.filter(pk=row.pk, revision=row.revision).exists():
            break
    head, tail = _around_events(row, text)
    return Snapshot(head, row.pk, row.last_seq, tail)


async def stream_json(snapshot: Snapshot) -> AsyncIterator[str]:
    """Yield a snapshot's JSON text, a batch of events at a time."""
    yield snapshot.head
    for after in range(0, snapshot.last_seq, BATCH):
        until = min(after + BATCH, snapshot.last_seq)
        events = await units_of_work.read(_joined_events, snapshot.session_pk, after, until)
        yield ("," if after and events else "") + events
    yield snapshot.tail


def sessions_json(app_name: str, user_id: str) -> str:
    """Return a user's sessions in an app as JSON, oldest update first, with state and without events.

    Raises:
        BadInput: an id cannot be stored.
    """
    check_ids(SessionKey("", app_name, user_id, ""))
    sessions = AgentSession.objects.filter(realm="", app_name=app_name, user_id=user_id)
    for prefix in HIDDEN_PREFIXES:
        sessions = sessions.exclude(session_id__startswith=prefix)
    shared = _shared_keys("", app_name, user_id)
    keys = SessionState.objects.filter(owner__in=sessions).order_by("owner_id", "pk")
    rows = keys.values_list("owner_id", "key", "value")
    states = {owner: [row[1:] for row in group] for owner, group in groupby(rows, itemgetter(0))}
    ordered = sessions.order_by("updated_at", "session_id")
    texts = (
        "".join(_around_events(row, _state_text(row, states.get(row.pk, []), shared, {}))) for row in ordered
    )
    return f"[{','.join(texts)}]"


def has_values(app_name: str, user_id: str, session_id: str, values: dict[str, Any]) -> bool:
    """Return whether a session's state has these values as the REST API returns them. 1 equals 1.0.

    Raises:
        SessionMissing: there is no such session.
    """
    row = find_session(app_name, user_id, session_id)
    if not values:
        return True
    texts = dict([*_own_keys(row), *_shared_keys(row.realm, app_name, user_id)])
    return all(key in texts and _is_same(json.loads(texts[key]), value) for key, value in values.items())


def _is_same(stored: Any, other: Any) -> bool:
    """Compare two JSON values; true does not equal 1."""
    if isinstance(stored, dict) and isinstance(other, dict):
        return stored.keys() == other.keys() and all(_is_same(stored[key], other[key]) for key in stored)
    if isinstance(stored, list) and isinstance(other, list):
        return len(stored) == len(other) and all(map(_is_same, stored, other))
    return isinstance(stored, bool) == isinstance(other, bool) and bool(stored == other)


def _joined_events(session_pk: int, after: int, until: int) -> str:
    events = Event.objects.filter(session_id=session_pk, seq__gt=after, seq__lte=until)
    return ",".join(events.order_by("seq").values_list("data", flat=True))


def _around_events(row: AgentSession, state_text: str) -> tuple[str, str]:
    head = (
        f'{{"id":{scopes.dumps(row.session_id)},"appName":{scopes.dumps(row.app_name)},'
        f'"userId":{scopes.dumps(row.user_id)},"state":{state_text},"events":['
    )
    return head, f'],"lastUpdateTime":{scopes.dumps(row.updated_at)}}}'


def _state_text(
    row: AgentSession,
    session_rows: Iterable[tuple[str, str]],
    shared: Iterable[tuple[str, str]],
    temp: dict[str, Any],
) -> str:
    """Join a session's keys, its shared keys, and its title under the key that ADK's front end reads."""
    texts = dict([*session_rows, *shared])
    if row.title:
        texts.setdefault(TITLE_KEY, scopes.dumps({"displayName": row.title}))
    for key, value in temp.items():
        texts[scopes.TEMP_PREFIX + key] = scopes.canonicalize(value).public
    return f"{{{','.join(f'{scopes.dumps(key)}:{value}' for key, value in texts.items())}}}"


def _own_keys(row: AgentSession) -> list[tuple[str, str]]:
    return list(_with_prefix(Scope.SESSION, SessionState.objects.filter(owner_id=row.pk)))


def _shared_keys(realm: str, app_name: str, user_id: str) -> list[tuple[str, str]]:
    owner = {"owner__realm": realm, "owner__app_name": app_name}
    return [
        *_with_prefix(Scope.APP, AppState.objects.filter(**owner)),
        *_with_prefix(Scope.USER, UserState.objects.filter(**owner, owner__user_id=user_id)),
    ]


def _with_prefix(scope: Scope, rows: QuerySet[Any]) -> Iterator[tuple[str, str]]:
    for key, value in rows.order_by("pk").values_list("key", "value"):
        yield scopes.PREFIX[scope] + key, value
