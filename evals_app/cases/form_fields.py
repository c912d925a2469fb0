"""Nested form fields such as `turns.0.calls.1.name`: parsing and JSON, and adding, moving and removing rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sessions_app.presentation import visible_text
from sessions_app.store import text_input

Nested = dict[str, Any]

MAX_DEPTH = 8
"""Most parts of a field's name."""

SHORT_JSON = 60
"""Characters of JSON that a text area shows in one line."""


_LABELS = {
    "turns": "turn",
    "calls": "tool call",
    "responses": "intermediate response",
    "rubrics": "rubric",
    "case_id": "id",
    "user": "what the user says",
    "args": "arguments",
    "property": "what holds of a good answer",
    "final_state": "state at the end",
    "fixtures": "fixture",
    "code": "status code",
    "times": "number of calls",
    "raw": "JSON",
}
"""Labels for parts of field names that are no plain words."""


@dataclass(frozen=True, slots=True)
class CaseField:
    """Field of a form for a template. An error refuses the form, a warning does not."""

    name: str
    value: str = ""
    error: str = ""
    warning: str = ""
    hint: str = ""

    @property
    def page_text(self) -> str:
        """The text in the form that a page can hold."""
        return browser_text(self.value)

    @property
    def has_invisible(self) -> bool:
        """True if the text has invisible characters."""
        return visible_text.escape_text(self.value) != self.value

    @property
    def id(self) -> str:
        """Id of the element in the page."""
        return f"field-{self.name.replace('.', '-')}"

    @property
    def place(self) -> str:
        """Label with the position in the form: "Turn 1, tool call 2, arguments"."""
        words = [
            f"{_LABELS.get(part, part)} {int(number) + 1}" if number.isdecimal() else _LABELS.get(part, part)
            for part, number in pairwise([*self.name.split("."), ""])
            if not part.isdecimal()
        ]
        label = ", ".join(words)
        return label[:1].upper() + label[1:]

    @property
    def lines(self) -> int:
        """Number of lines of a text area for JSON."""
        return min(self.value.count("\n") + 1 + len(self.value) // 90, 16)

    @property
    def rows(self) -> int:
        """Number of lines of a text area for a message."""
        return max(self.lines, 2)


def parse_nested(items: Iterable[tuple[str, str]]) -> Nested:
    """Return form data nested by the parts of the field names. Numeric parts make lists."""
    root: Nested = {}
    for name, value in items:
        parts = name.split(".")
        if len(parts) > MAX_DEPTH:
            continue
        inner = root
        for part in parts[:-1]:
            child = inner.setdefault(part, {})
            if not isinstance(child, dict):
                break
            inner = child
        else:
            inner.setdefault(parts[-1], value)
    listed = _to_lists(root)
    return listed if isinstance(listed, dict) else {}


def _to_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _to_lists(item) for name, item in value.items()}
    if inner and all(name.isdecimal() and len(name) < 8 for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def field_text(data: Any, name: str, old: Any = "") -> str:
    """Return a field's text; "" if it was not sent.

    Browsers change newlines and some characters. If the text is `old` with such changes, return `old`.
    """
    value = data.get(name) if isinstance(data, dict) else None
    sent_text = value.replace("\r\n", "\n") if isinstance(value, str) else ""
    return old if isinstance(old, str) and old and browser_text(old) == browser_text(sent_text) else sent_text


def field_word(data: Any, name: str, old: Any = "") -> str:
    """Return the text of a single-line field, stripped unless `old` has the same white space."""
    sent_text = field_text(data, name)
    is_old = isinstance(old, str) and _one_line(old) == _one_line(sent_text)
    return old if is_old else sent_text.strip()


def browser_text(value: str) -> str:
    """Return a text as a browser sends it back."""
    lines = value.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return lines.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _one_line(value: str) -> str:
    return browser_text(value).replace("\n", "").strip()


def form_rows(data: Any, name: str) -> list[Nested]:
    """Return the valid rows of a list of fields."""
    value = data.get(name) if isinstance(data, dict) else None
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def rearrange_rows(data: Nested, action: str, fresh: Mapping[str, Nested] | None = None) -> Nested:
    """Return a form's data with a row added, removed or moved: `add:turns`, `drop:turns.1`, `up:turns.1`, `down:…`.

    An invalid action changes nothing. `fresh` has the initial data of new rows by the list's name.
    """
    verb, _, path = action.partition(":")
    parts = path.split(".")
    index = int(parts[-1]) if parts[-1].isdecimal() and len(parts[-1]) < 8 else -1
    moves = {"drop": None, "up": index - 1, "down": index + 1}
    if verb == "add":
        changed = _with_rows(data, parts, lambda listed: [*listed, dict((fresh or {}).get(parts[-1], {}))])
    elif verb in moves and index >= 0 and len(parts) > 1:
        changed = _with_rows(data, parts[:-1], lambda listed: _move_row(listed, index, moves[verb]))
    else:
        changed = data
    return changed if isinstance(changed, dict) else data


def _move_row(listed: list[Any], index: int, to: int | None) -> list[Any]:
    if index >= len(listed) or (to is not None and not 0 <= to < len(listed)):
        return listed
    remaining = [*listed[:index], *listed[index + 1 :]]
    return remaining if to is None else [*remaining[:to], listed[index], *remaining[to:]]


def _with_rows(data: Any, parts: Sequence[str], change: Any) -> Any:
    head, *remaining = parts
    if isinstance(data, list):
        return [
            _with_rows(row, remaining, change) if remaining and head == str(index) else row
            for index, row in enumerate(data)
        ]
    if not isinstance(data, dict):
        return data
    if not remaining:
        listed = data.get(head)
        changed = change(listed if isinstance(listed, list) else [])
        return {**data, head: changed} if changed or head in data else data
    return {**data, head: _with_rows(data.get(head), remaining, change)} if head in data else data


def json_text(value: Any) -> str:
    """Return JSON for a text area; "" for an empty value."""
    if not value:
        return ""
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= SHORT_JSON else json.dumps(value, ensure_ascii=False, indent=2)


def read_object(data: Nested, name: str, where: str, errors: dict[str, str]) -> dict[str, Any] | None:
    """Parse the JSON object of a field. Return None if it is empty, or invalid, which adds an error at `where`."""
    source = field_text(data, name)
    if not source.strip():
        return None
    try:
        value = text_input.parse_json(source, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        errors[where] = f"No JSON: {error.msg} (line {error.lineno}, column {error.colno})."
    except (ValueError, RecursionError) as error:
        errors[where] = f"No JSON: {error}."
    else:
        if isinstance(value, dict):
            return value
        errors[where] = 'An object is needed, such as {"key": "value"}.'
    return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def set_field(target: dict[str, Any], name: str, value: Any) -> None:
    """Set a field. None removes it, unless it was null before."""
    if value is not None:
        target[name] = value
    elif target.get(name) is not None:
        del target[name]
