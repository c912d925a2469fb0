"""The unique key of a session."""

from __future__ import annotations

from typing import NamedTuple


class SessionKey(NamedTuple):
    """The unique key of a session: realm (empty by default), app, user and id."""

    realm: str
    app_name: str
    user_id: str
    session_id: str


class StorableKey(SessionKey):
    """A session key whose ids the store can hold and index: `ids.check_ids` returns it, and rows have it."""

    __slots__ = ()
