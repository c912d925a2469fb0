"""Who wrote a state key, read off the event when no recorder saw it happen. Pure.

The recorder knows better (`sessions_app.adk.recorder`); what is found here is marked as inferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

USER_AUTHOR = "user"
"""The author of what a person, or the program around the agent, appended."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote a key.

    Attributes:
        kind: tool, callback, output_key, delta (an explicit `EventActions.state_delta`), user (by hand in
            DevUI) or seed; empty: unknown.
        name: of the tool, the callback or the agent; "one of a, b" when it cannot be told.
        call_id: the tool call's id.
        inferred: nobody saw it; it was read off the event.
    """

    kind: str = ""
    name: str = ""
    call_id: str = ""
    inferred: bool = True


UNKNOWN = Writer()


def infer_writers(
    delta: Mapping[str, Any], *, author: str, responses: Sequence[Mapping[str, Any]], text: str
) -> dict[str, Writer]:
    """Return the likely writer of each key of an event's delta; keys of unknown writers are left out.

    Args:
        delta: prefixed keys and their values.
        author: the event's author.
        responses: the function responses among its parts, in wire form.
        text: what it says, thoughts left out.
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
    """Return the one name there is, or "one of a, b" when it could have been any of them."""
    different = list(dict.fromkeys(names))
    return "one of " + ", ".join(different) if len(different) > 1 else "".join(different)
