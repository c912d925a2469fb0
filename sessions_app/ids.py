"""What names a session, and which ids a store can hold. Pure."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

from sessions_app import scopes
from sessions_app.errors import BadInput

ID_BYTES = 512
"""Longest id in UTF-8 bytes; four of them fit an index entry on both databases."""


class SessionKey(NamedTuple):
    """What names a session: its realm (empty: real life), app, user and id."""

    realm: str
    app_name: str
    user_id: str
    session_id: str


def is_storable(*ids: str) -> bool:
    """Tell whether a store can hold these ids at all; a database refuses to look for one it cannot."""
    return all(map(scopes.is_clean, ids))


def _require_storable(name: str) -> str:
    if not is_storable(name):
        raise ValueError("It holds a NUL or a lone surrogate, which no store keeps.")
    return name


StorableText = Annotated[str, AfterValidator(_require_storable)]
"""What a request's body names something by: a database refuses to look for a text it cannot hold."""


RowKey = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""What a request names a row by: a database fails to look for a number that it cannot hold."""


def check_ids(key: SessionKey) -> None:
    """Refuse ids that no store can index or hold.

    Raises:
        BadInput: naming the id and the rule.
    """
    for name, value in zip(("realm", "app", "user", "session"), key, strict=True):
        check_id(name, value)


def check_event_ids(event_id: str, invocation_id: str) -> None:
    """Refuse an event whose ids no store can index or hold.

    Raises:
        BadInput: naming the id and the rule.
    """
    check_id("event", event_id)
    check_id("invocation", invocation_id)


def check_id(name: str, value: str) -> None:
    """Refuse one id that is too long or holds what text columns cannot (NUL, lone surrogates).

    Raises:
        BadInput: naming the id and the rule.
    """
    if not scopes.is_clean(value):
        raise BadInput(
            f"The {name} id {value[:40]!r} holds a NUL or a lone surrogate, which no store keeps.",
            hint="Choose an id of valid Unicode text.",
        )
    if len(value.encode()) > ID_BYTES:
        raise BadInput(
            f"The {name} id {value[:40]!r}… is longer than {ID_BYTES} bytes.", hint="Choose a shorter id."
        )
