"""Attributes of spans in the form in which they are stored: JSON without credentials, of limited size. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from sessions_app.store import scopes
from sessions_app.store.redaction import REDACTED, is_credential_name, redact, redact_texts

MAX_ATTRIBUTES = 1_000
"""Maximum attributes of a span, an event or a link that are stored."""

MAX_MEMBERS = 200
"""Maximum events of a span that are stored, and maximum links."""

MAX_NAME = 500
"""Maximum length of an attribute's name, in characters."""

OMITTED = "devui.omitted"
"""Attribute with the number of attributes that are not stored."""


def store_attributes(attributes: Iterable[tuple[str, Any]], max_text: int) -> dict[str, Any]:
    """Return attributes in storable form.

    Args:
        attributes: names and values.
        max_text: maximum length of a text, in characters; longer ones are cut.
    """
    stored: dict[str, Any] = {}
    omitted = 0
    for name, value in attributes:
        if len(stored) >= MAX_ATTRIBUTES:
            omitted += 1
        else:
            stored[scopes.clean_text(name)[:MAX_NAME]] = store_value(value, max_text, name)
    return {**stored, OMITTED: omitted} if omitted else stored


def store_value(value: Any, max_text: int, name: str = "") -> Any:
    """Return the value of an attribute in storable form. Its name, such as `password`, may tell that it is a secret."""
    value = scopes.to_jsonable(value)
    if isinstance(value, str) and value.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            value = scopes.dumps(redact(scopes.to_jsonable(json.loads(value))))
    elif isinstance(value, str) and len(value) <= max_text:
        return redact_texts(value, name)
    if isinstance(value, str) and len(value) > max_text:
        value = f"{value[:max_text]}… ({len(value):,} characters)"
    return REDACTED if value and is_credential_name(name) else redact(value)
