"""DevUI's API for state: whole or by key, now or at an event, by scope; changed by appended events.

The query parameter `key` is the whole key with its prefix: it may hold any character, and `user:preferences.theme` is
one key. The parameter `pointer` is a JSON pointer (RFC 6901) into its value, such as `/theme/0`.

Changes can be conditional: `revision` is compared with the session's revision, and `position` with that of the key's
last write, which changes with every write, also by other sessions for `user:` and `app:` keys.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from django.http import HttpRequest
from ninja import P, QueryEx, Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

import sessions_app.paths  # noqa: F401 - registers the `seg` converter
from sessions_app import roles
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS
from sessions_app.api.state_schemas import (
    DiffOut,
    DriftOut,
    EditOut,
    HistoryPage,
    KeyOut,
    Keys,
    OwnerState,
    StateOut,
)
from sessions_app.http import person_name
from sessions_app.lookup import find_event, find_session
from sessions_app.presentation import json_tree
from sessions_app.sessions import state_edits
from sessions_app.sessions.state_edits import Condition, StateEdit
from sessions_app.store import scopes as state
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import AgentSession, Event, Scope
from sessions_app.store.state import differences, drift, history

router = Router(tags=["state"])

STATE = "/sessions/{int:session}/state"

Key = QueryEx[str, P(description="The whole key with its prefix, as in `user:tier`.")]
At = QueryEx[str | None, P(description="Id or number of an event: return the state at that event.")]
Revision = QueryEx[int | None, P(description="Refuse with 409 unless this is the session's revision.")]
Position = QueryEx[
    int | None,
    P(ge=0, description="Refuse with 409 unless the key's last write has this `position`; 0: never written."),
]
OneScope = QueryEx[Literal["session", "user", "app"] | None, P(description="This scope only.")]


class NewValue(Schema):
    """A value for a key: any JSON."""

    model_config = ConfigDict(extra="forbid")

    value: Any = Field(description="Any JSON. An object replaces the previous value; nothing is merged.")


@router.get(STATE, response={200: StateOut, **REFUSALS})
async def get_state(request: HttpRequest, session: int, at: At = None, scope: OneScope = None) -> StateOut:
    """Return a session's state, now or at an event, merged and by scope."""
    return await units_of_work.read(_read_state, session, at, scope)


@router.get(f"{STATE}/keys", response={200: Keys, **REFUSALS})
async def list_keys(request: HttpRequest, session: int, at: At = None, scope: OneScope = None) -> Keys:
    """Return the keys with their values and last writes, now or at an event."""
    return await units_of_work.read(_read_keys, session, at, scope)


@router.get(f"{STATE}/key", response={200: KeyOut, **REFUSALS})
async def get_key(
    request: HttpRequest,
    session: int,
    key: Key,
    at: At = None,
    pointer: QueryEx[str, P(description="JSON pointer of a piece of the value: `/theme/0`.")] = "",
) -> KeyOut:
    """Return one key, or a piece of its value, now or at an event."""
    return await units_of_work.read(_read_key, session, key, at, pointer)


@router.put(f"{STATE}/key", response={200: EditOut, 201: EditOut, **REFUSALS})
@needs(put=roles.EDIT_STATE)
async def put_key(
    request: HttpRequest,
    session: int,
    key: Key,
    body: NewValue,
    revision: Revision = None,
    position: Position = None,
) -> Status[StateEdit]:
    """Set a key's value by an appended event. Refused while a run is active on the session."""
    condition = Condition(revision, position)
    edited = await units_of_work.write(
        state_edits.put_key, session, key, body.value, condition, person=person_name(request)
    )
    return Status(200 if edited.had_value else 201, edited)


@router.delete(f"{STATE}/key", response={200: EditOut, **REFUSALS})
@needs(delete=roles.EDIT_STATE)
async def remove_key(
    request: HttpRequest, session: int, key: Key, revision: Revision = None, position: Position = None
) -> StateEdit:
    """Remove a key from the state by an appended event.

    ADK's deltas cannot remove keys: the event sets the key to null, and the store removes it. (ADK's own session
    services would keep the key with null.)
    """
    condition = Condition(revision, position)
    return await units_of_work.write(
        state_edits.remove_key, session, key, condition, person=person_name(request)
    )


@router.get(f"{STATE}/history", response={200: HistoryPage, **REFUSALS})
async def get_history(
    request: HttpRequest,
    session: int,
    key: Key,
    limit: QueryEx[int, P(ge=1, le=200, description="Maximum number of rows.")] = 50,
    before: QueryEx[int | None, P(description="`next` of the page before.")] = None,
    here: QueryEx[bool, P(description="Only writes by this session.")] = False,
) -> HistoryPage:
    """Return the writes of a key, newest first; of a `user:` or `app:` key across all sessions."""
    return await units_of_work.read(_read_history, session, key, limit, before, here)


@router.get(f"{STATE}/diff", response={200: DiffOut, **REFUSALS})
async def get_diff(
    request: HttpRequest,
    session: int,
    from_: QueryEx[
        str | None, P(alias="from", description="Id or number of the earlier event; default: the start.")
    ] = None,
    to: QueryEx[str | None, P(description="Id or number of the later event; default: now.")] = None,
) -> DiffOut:
    """Return the keys that differ between two events, in every scope."""
    return await units_of_work.read(_read_diff, session, from_, to)


@router.get(f"{STATE}/drift", response={200: DriftOut, **REFUSALS})
async def get_drift(
    request: HttpRequest,
    session: int,
    fold: QueryEx[
        Literal["ledger", "events"],
        P(
            description="`events` folds every event's delta, which takes time proportional to the session's length."
        ),
    ] = "ledger",
) -> DriftOut:
    """Return keys whose value nothing explains, and keys explained by something other than this session's events."""
    return await units_of_work.read(
        lambda: DriftOut.model_validate(drift.find_drift(find_session(session), from_events=fold == "events"))
    )


@router.get("/apps/{seg:app}/state", response={200: OwnerState, **REFUSALS})
async def get_app_state(request: HttpRequest, app: str) -> OwnerState:
    """Return the current state that all users of an app share: the `app:` keys, without their prefix."""
    return await units_of_work.read(_read_owner_state, app, None)


@router.get("/apps/{seg:app}/users/{seg:user}/state", response={200: OwnerState, **REFUSALS})
async def get_user_state(request: HttpRequest, app: str, user: str) -> OwnerState:
    """Return the current state that all sessions of a user share: the `user:` keys, without their prefix."""
    return await units_of_work.read(_read_owner_state, app, user)


def _event_at(session: AgentSession, at: str | None) -> Event | None:
    return None if at is None else find_event(session, event_id=at)


def _read_state(session_key: int, at: str | None, scope: str | None) -> StateOut:
    session = find_session(session_key)
    event = _event_at(session, at)
    snapshot = history.state_at(session, event)
    scopes = {str(name): snapshot.values(name) for name in Scope if scope in (None, name)}
    merged = state.merge(*(scopes.get(name, {}) for name in (Scope.SESSION, Scope.USER, Scope.APP)))
    return StateOut(
        seq=event.seq if event else session.last_seq,
        event_id=event.event_id if event else None,
        revision=session.revision,
        merged=merged,
        scopes=scopes,
    )


def _read_keys(session_key: int, at: str | None, scope: str | None) -> Keys:
    session = find_session(session_key)
    event = _event_at(session, at)
    snapshot = history.state_at(session, event)
    rows = [row for name, part in snapshot.scopes() if scope in (None, name) for row in part]
    return Keys.model_validate(
        {
            "seq": event.seq if event else session.last_seq,
            "event_id": event.event_id if event else None,
            "keys": rows,
        }
    )


def _read_key(session_key: int, name: str, at: str | None, pointer: str) -> KeyOut:
    session = find_session(session_key)
    scope, bare = state_edits.parse_name(name)
    change = history.change_at(session, _event_at(session, at), scope, bare)
    if change is None or change.removed:
        when = "" if at is None else f" at event {at!r}"
        raise NotFound(
            f"The key {name!r} has no value{when}.",
            hint=f"GET /api/v1/sessions/{session.pk}/state/keys lists the keys; the history includes removed ones.",
        )
    key_out = KeyOut.model_validate(change)
    if pointer:
        key_out.value = _resolve_piece(key_out.value, pointer)
    return key_out


def _resolve_piece(value: Any, pointer: str) -> Any:
    if not pointer.startswith("/"):
        raise BadInput(
            f"The pointer {pointer!r} does not begin with a slash.",
            hint="A JSON pointer looks like /theme/0.",
        )
    try:
        return json_tree.resolve_pointer(value, pointer)
    except NotFound as error:
        raise NotFound(error.message, hint="GET the key without `pointer` for the whole value.") from error


def _read_history(session_key: int, name: str, limit: int, before: int | None, here: bool) -> HistoryPage:
    session = find_session(session_key)
    scope, bare = state_edits.parse_name(name)
    owner = history.owners_at(session).ids.get(scope)
    writes = history.read_key_writes(scope, owner or 0, bare)
    if here:
        writes = writes.filter(session=session)
    if before is not None:
        writes = writes.filter(position__lt=before)
    page = list(writes[: limit + 1])
    following = page[limit - 1].position if len(page) > limit else None
    return HistoryPage.model_validate({"key": name, "changes": page[:limit], "next": following})


def _read_diff(session_key: int, first: str | None, last: str | None) -> DiffOut:
    session = find_session(session_key)
    before, after = _event_at(session, first), _event_at(session, last)
    if before and after and before.seq > after.seq:
        raise BadInput(f"Event {first!r} comes after event {last!r}.", hint="Swap `from` and `to`.")
    return DiffOut.model_validate(
        {
            "from_seq": before.seq if before else 0,
            "from_event_id": before.event_id if before else None,
            "to_seq": after.seq if after else session.last_seq,
            "to_event_id": after.event_id if after else None,
            "changes": differences.diff(session, before, after).keys,
        }
    )


def _read_owner_state(app: str, user: str | None) -> OwnerState:
    owner_state = history.owner_state(app, user)
    if owner_state is None:
        owner = f"App {app!r}" if user is None else f"User {user!r} of app {app!r}"
        raise NotFound(
            f"{owner} has no shared state.", hint="Agents share values under `app:` and `user:` keys."
        )
    version, rows = owner_state
    values = {row.key: json.loads(row.value or "null") for row in rows}
    return OwnerState.model_validate(
        {"app": app, "user": user, "version": version, "state": values, "keys": rows}
    )
