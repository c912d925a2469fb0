"""Infer the writer of a state key from the event, if no recorder observed the write. Pure.

The recorder (`sessions_app.adk.recorder`) is more precise; writers from this module are marked as inferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

USER_AUTHOR = "user"
"""Author of events that a person or the calling program appended."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a key.

    Attributes:
        kind: tool, callback, output_key, delta (an explicit `EventActions.state_delta`), user (by hand in
            DevUI) or seed; empty: unknown.
        name: name of the tool, callback or agent; "one of a, b" if it is ambiguous.
        call_id: id of the tool call.
        inferred: the writer was inferred from the event, not observed.
    """

    kind: str = ""
    name: str = ""
    call_id: str = ""
    inferred: bool = True


UNKNOWN = Writer()


def infer_writers(
    delta: Mapping[str, Any], *, author: str, responses: Sequence[Mapping[str, Any]], text: str
) -> dict[str, Writer]:
    """Return the likely writer of each key of an event's delta; keys with unknown writers are omitted.

    Args:
        delta: prefixed keys and their values.
        author: the event's author.
        responses: the function responses among its parts, in wire form.
        text: the event's text without thoughts.
    """
    if author == USER_AUTHOR:
        return dict.fromkeys(delta, Writer("delta"))
    if responses:
        return dict.fromkeys(delta, _tool_writer(responses))
    return {key: Writer("output_key", author) for key, value in delta.items() if text and value == text}


def _tool_writer(responses: Sequence[Mapping[str, Any]]) -> Writer:
    names = [str(response.get("name") or "") for response in responses]
    call_id = str(responses[0].get("id") or "") if len(responses) == 1 else ""
    return Writer("tool", join_alternatives(names), call_id)


def join_alternatives(names: Iterable[str]) -> str:
    """Return the only name, or "one of a, b" if there are several."""
    different = list(dict.fromkeys(names))
    return "one of " + ", ".join(different) if len(different) > 1 else "".join(different)
