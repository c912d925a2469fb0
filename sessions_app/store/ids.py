"""Validation of ids. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from sessions_app.store import scopes
from sessions_app.store.errors import BadInput
from sessions_app.store.session_key import SessionKey, StorableKey

ID_BYTES = 512
"""Longest id in UTF-8 bytes; four ids fit into an index entry on both databases."""


def is_storable(*ids: str) -> bool:
    """Tell whether the store can hold these ids. Queries for other ids would raise database errors."""
    return all(map(scopes.is_clean, ids))


def _require_storable(name: str) -> str:
    if not is_storable(name):
        raise ValueError("It contains a NUL or a lone surrogate, which the store cannot hold.")
    return name


StorableText = Annotated[str, AfterValidator(_require_storable)]
"""A name in a request body that the store can hold."""


RowKey = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""A primary key in a request, within the column's range."""


def check_ids(key: SessionKey) -> StorableKey:
    """Return a session key if the store can hold and index its ids.

    Each entry point calls it once with the ids that it receives; the write service takes only a `StorableKey`.

    Raises:
        BadInput: naming the id and the rule.
    """
    for name, value in zip(("realm", "app", "user", "session"), key, strict=True):
        check_id(name, value)
    return StorableKey(*key)


def check_event_ids(event_id: str, invocation_id: str) -> None:
    """Refuse event ids that the store cannot hold or index.

    Raises:
        BadInput: naming the id and the rule.
    """
    check_id("event", event_id)
    check_id("invocation", invocation_id)


def check_id(name: str, value: str) -> None:
    """Refuse an id that is too long, or contains characters that text columns cannot hold (NUL, lone surrogates).

    Raises:
        BadInput: naming the id and the rule.
    """
    if not scopes.is_clean(value):
        raise BadInput(
            f"The {name} id {value[:40]!r} contains a NUL or a lone surrogate, which the store cannot hold.",
            hint="Choose an id of valid Unicode text.",
        )
    if len(value.encode()) > ID_BYTES:
        raise BadInput(
            f"The {name} id {value[:40]!r}… is longer than {ID_BYTES} bytes.", hint="Choose a shorter id."
        )
