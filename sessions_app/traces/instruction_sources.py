"""Find the declared instruction and the state keys of which the instruction in a model request was made. Pure.

A declared instruction explains a text if its literal parts occur in the text one after the other: what stands between
them filled its placeholders. Where none explains the text, values of keys are searched in it, which proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

TEMPLATE_KEY = re.compile(r"{+[^{}]*}+")
"""Placeholders, as ADK finds them (`google/adk/utils/instructions_utils.py`)."""

STATE_PREFIXES = ("app:", "user:", "temp:")

LITERAL_SOURCE = "static_instruction"
"""Field of an agent's description with an instruction that ADK sends as it is, without filling placeholders."""

ARTIFACT = "artifact."
"""Begin of a placeholder that ADK fills with an artifact."""

SEPARATOR = "\n\n"
"""Text between two instructions of a request."""

MAX_STARTS = 10
"""Places of a text at which a declared instruction is tried."""

MIN_GUESSED = 4
"""Characters of a value from which it is searched in a text that no declared instruction explains."""

MAX_GUESSED_KEYS = 200
"""Most keys whose values are searched."""


@dataclass(frozen=True, slots=True)
class InstructionPiece:
    """A part of an instruction.

    Attributes:
        text: what the model was given.
        source: the declared instruction it comes from, a field of the agent's description; empty: none explains it.
        key: the state key, or `artifact.NAME`, that filled it; empty: literal text.
        placeholder: the placeholder in the declared instruction; empty: the key was found by its value.
        is_other_value: the text is not the value that the key had.
    """

    text: str
    source: str = ""
    key: str = ""
    placeholder: str = ""
    is_other_value: bool = False


@dataclass(frozen=True, slots=True)
class InstructionLine:
    """A line of an instruction; `filled` are the pieces with a key that begin in it."""

    number: int
    pieces: list[InstructionPiece] = field(default_factory=list)
    filled: list[InstructionPiece] = field(default_factory=list)


def explain_instruction(
    text: str, templates: Mapping[str, str], values: Mapping[str, Any]
) -> list[InstructionPiece]:
    """Return the pieces of an instruction.

    Args:
        text: the instruction that the model was given.
        templates: the declared instructions by their field in the agent's description.
        values: the state as the agent reads it, with `temp:` keys.
    """
    matches = [
        match
        for source, template in templates.items()
        if template and (match := _match_template(text, source, template, values))
    ]
    pieces: list[InstructionPiece] = []
    end = 0
    for start, filled in sorted(matches, key=lambda match: match[0]):
        if start >= end:
            pieces += [*_guess_keys(text[end:start], values), *filled]
            end = start + sum(len(piece.text) for piece in filled)
    return [*pieces, *_guess_keys(text[end:], values)]


def fill_template(source: str, template: str, values: Mapping[str, Any]) -> list[InstructionPiece]:
    """Return the pieces of a declared instruction, filled with the state."""
    return [
        replace(piece, text=_value_text(values, piece.key) or "") if piece.key else piece
        for piece in parse_template(source, template)
    ]


def parse_template(source: str, template: str) -> Iterator[InstructionPiece]:
    """Yield the literal texts and the placeholders of a declared instruction; the text of a placeholder is empty."""
    literal, end = "", 0
    for match in TEMPLATE_KEY.finditer(template) if source != LITERAL_SOURCE else ():
        literal += template[end : match.start()]
        end = match.end()
        if key := _placeholder_key(match.group()):
            if literal:
                yield InstructionPiece(literal, source)
            yield InstructionPiece("", source, key, match.group())
            literal = ""
        else:
            literal += match.group()
    if literal + template[end:]:
        yield InstructionPiece(literal + template[end:], source)


def join_templates(declared: Mapping[str, str]) -> list[InstructionPiece]:
    """Return the pieces of declared instructions, by their field, as ADK joins them to one text.

    ADK separates them by an empty line (`LlmRequest.append_instructions`).
    """
    joined: list[InstructionPiece] = []
    for source, template in declared.items():
        separator = [InstructionPiece(SEPARATOR, source)] if joined else []
        for piece in (*separator, *parse_template(source, template)):
            if joined and not joined[-1].key and not piece.key:
                joined[-1] = replace(joined[-1], text=joined[-1].text + piece.text)
            else:
                joined.append(piece)
    return joined


def is_filled_from(text: str, pieces: Sequence[InstructionPiece]) -> bool:
    """Tell whether a text has these pieces one after the other and nothing else, whatever fills the placeholders."""
    if not pieces:
        return not text
    filled = _fill_pieces(text, 0, pieces, {})
    ends_with_key = bool(filled) and bool(pieces[-1].key)
    return ends_with_key or (bool(filled) and sum(len(piece.text) for piece in filled) == len(text))


def split_lines(pieces: Sequence[InstructionPiece]) -> list[InstructionLine]:
    """Return the pieces line by line."""
    lines = [InstructionLine(1)]
    for piece in pieces:
        if piece.key:
            lines[-1].filled.append(piece)
        facts = piece.source, piece.key, piece.placeholder, piece.is_other_value
        first, *others = (InstructionPiece(text, *facts) for text in piece.text.split("\n"))
        lines[-1].pieces.append(first)
        lines += (InstructionLine(number, [other]) for number, other in enumerate(others, len(lines) + 1))
    return lines


def _placeholder_key(placeholder: str) -> str:
    """Return the key that ADK inserts for a placeholder; empty: ADK leaves the text as it is."""
    key = placeholder.lstrip("{").rstrip("}").strip().removesuffix("?")
    if key.startswith(ARTIFACT):
        return key
    prefix, colon, name = key.partition(":")
    is_key = (prefix + colon in STATE_PREFIXES and name.isidentifier()) if colon else key.isidentifier()
    return key if is_key else ""


def _match_template(
    text: str, source: str, template: str, values: Mapping[str, Any]
) -> tuple[int, list[InstructionPiece]] | None:
    """Return where a declared instruction begins in a text, and its pieces; None if it does not explain the text."""
    pieces = list(parse_template(source, template))
    first = (_value_text(values, pieces[0].key) or "") if pieces[0].key else pieces[0].text
    start = text.find(first)
    for _ in range(MAX_STARTS):
        if start < 0:
            return None
        if filled := _fill_pieces(text, start, pieces, values):
            return start, filled
        start = text.find(first, start + 1)
    return None


def _fill_pieces(
    text: str, start: int, pieces: Sequence[InstructionPiece], values: Mapping[str, Any]
) -> list[InstructionPiece]:
    """Return the pieces with their text from a position on; empty if the text is another."""
    filled: list[InstructionPiece] = []
    for number, piece in enumerate(pieces):
        if piece.key:
            following = pieces[number + 1] if number + 1 < len(pieces) else InstructionPiece("")
            part = _filled_text(text, start, _value_text(values, piece.key), following)
        else:
            part = piece.text if text.startswith(piece.text, start) else None
        if part is None:
            return []
        is_other_value = bool(piece.key) and part != _value_text(values, piece.key)
        is_artifact = piece.key.startswith(ARTIFACT)
        filled.append(replace(piece, text=part, is_other_value=is_other_value and not is_artifact))
        start += len(part)
    return filled


def _filled_text(text: str, start: int, expected: str | None, following: InstructionPiece) -> str | None:
    """Return what filled a placeholder: the expected value, or what stands before the literal text that follows."""
    literal = "" if following.key else following.text
    if expected is not None and text.startswith(expected + literal, start):
        return expected
    end = text.find(literal, start) if literal else -1
    return text[start:end] if end >= 0 else None


def _value_text(values: Mapping[str, Any], key: str) -> str | None:
    """Return the text that ADK inserts for a key; None for an artifact, whose content is not read."""
    if key.startswith(ARTIFACT):
        return None
    value = values.get(key)
    return "" if value is None else str(value)


def _guess_keys(text: str, values: Mapping[str, Any]) -> list[InstructionPiece]:
    """Return the pieces of an unexplained text: the values of keys that occur in it, the longest first."""
    candidates = [(str(value), key) for key, value in list(values.items())[:MAX_GUESSED_KEYS]]
    candidates.sort(key=lambda candidate: -len(candidate[0]))
    found: dict[int, tuple[str, str]] = {}
    taken: set[int] = set()
    for value, key in candidates:
        start = text.find(value) if len(value) >= MIN_GUESSED else -1
        positions = range(start, start + len(value))
        if start >= 0 and _is_whole_word(text, start, len(value)) and taken.isdisjoint(positions):
            found[start] = (value, key)
            taken.update(positions)
    pieces, end = [], 0
    for start, (value, key) in sorted(found.items()):
        pieces += [InstructionPiece(text[end:start]), InstructionPiece(value, key=key)]
        end = start + len(value)
    return [piece for piece in (*pieces, InstructionPiece(text[end:])) if piece.text]


def _is_whole_word(text: str, start: int, length: int) -> bool:
    before, after = text[start - 1 : start], text[start + length : start + length + 1]
    return not (before.isalnum() and text[start].isalnum()) and not (
        after.isalnum() and text[start + length - 1].isalnum()
    )
