"""Text of a case's messages for forms, and messages with a new text. Pure."""

from __future__ import annotations

from typing import Any

from evals_app.cases.form_fields import browser_text

Json = dict[str, Any]


def message_text(content: Json | None) -> str:
    """Return a message's text, one part per line, without thoughts."""
    return "\n".join(part["text"] for part in (content or {}).get("parts") or [] if _is_text(part))


def other_parts(content: Json | None) -> list[str]:
    """Return names of a message's other parts: files, thoughts, tool calls and results."""
    return [_part_name(part) for part in (content or {}).get("parts") or [] if not _is_text(part) and part]


def with_text(content: Json | None, text: str, role: str) -> Json | None:
    """Return a message with a new text; None if it has no parts then.

    Several text parts become one, all other parts stay.
    """
    if browser_text(text) == browser_text(message_text(content)):
        return content
    parts = [*((content or {}).get("parts") or [])]
    first = next((index for index, part in enumerate(parts) if _is_text(part)), None)
    other_parts = [part for part in parts if not _is_text(part) and part]
    if text:
        old = parts[first] if first is not None else {}
        index = sum(1 for part in parts[:first] if not _is_text(part) and part) if first is not None else 0
        other_parts.insert(index, {**old, "text": text})
    if not other_parts:
        return None
    return {**(content or {"role": role}), "parts": other_parts}


def _is_text(part: Json) -> bool:
    return bool(part.get("text")) and not part.get("thought")


def _part_name(part: Json) -> str:
    if part.get("thought"):
        return "a thought"
    for kind in ("inline_data", "file_data"):
        if blob := part.get(kind):
            return f"a file ({blob.get('display_name') or blob.get('mime_type') or 'of unknown type'})"
    for kind, name in (("function_response", "the result of"), ("function_call", "a call of")):
        if called := part.get(kind):
            return f"{name} {called.get('name') or 'a tool'}"
    return next(
        (kind.replace("_", " ") for kind, value in part.items() if value is not None), "an empty part"
    )
