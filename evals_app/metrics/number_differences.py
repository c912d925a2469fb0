"""Numbers of an expected answer that the actual answer does not have. Pure.

Metrics of texts pass answers that differ in a single word, and that word may be the number that was asked for.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from sessions_app.store.short_texts import join_names, truncate

NOTE_START = "Numbers differ from the expected answer"
"""Beginning of the reason of a score whose numbers differ; pages and reports find such scores by it."""

NUMBERS_SHOWN = 5
NUMBER_LENGTH = 40

_NUMBER = re.compile(r"(?<![A-Za-z\u00c0-\u024f_\d])-?\d+(?:[.,'\u2019\u00a0\u202f\u2009]\d+)*")
"""A number that is no part of a word, such as `H2O`. A minus sign stands before it, and not after a letter or digit."""

_MINUS_SIGNS = str.maketrans(dict.fromkeys("\u2212\uff0d\ufe63", "-"))
_LIST_MARKER = re.compile(r"^\s*\d{1,2}[.)]\s+(?=\S)", re.MULTILINE)
_THOUSANDS = tuple(
    re.compile(rf"-?\d{{1,3}}(?:[{group}]\d{{3}})+(?:[{point}]\d+)?")
    for group, point in ((",", "."), ("'\u2019", "."), ("\u00a0\u202f\u2009", ".,"))
)
_POINTS_AS_THOUSANDS = re.compile(r"-?\d{1,3}(?:\.\d{3})+,\d+")
_COMMA_AS_POINT = re.compile(r"-?\d+,\d+")
_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)


def is_number_note(reason: str) -> bool:
    """Tell whether the reason of a score says that numbers differ."""
    return reason.startswith(NOTE_START)


def describe_differences(answers: Iterable[tuple[str, str]]) -> str:
    """Return a note on the turns whose numbers differ, given the expected and the actual answers; "" if none do."""
    differences = [
        (number, *different_numbers(expected, actual)) for number, (expected, actual) in enumerate(answers, 1)
    ]
    notes = [
        f"turn {number}, expected {_join_numbers(missing)}, answered {_join_numbers(other) or 'no other'}"
        for number, missing, other in differences
        if missing
    ]
    return f"{NOTE_START}: {'; '.join(notes)}." if notes else ""


def different_numbers(expected: str, actual: str) -> tuple[list[str], list[str]]:
    """Return the numbers of the expected answer that the actual one lacks, and the other numbers of the actual one.

    Numbers are equal if their values are: 24.0 and 24, 1,200 and 1200. Further numbers in the actual answer alone are
    no difference: it may say more than is expected.
    """
    expected_numbers, actual_numbers = _find_numbers(expected), _find_numbers(actual)
    missing = [
        text
        for value, text in expected_numbers.items()
        if value not in actual_numbers and not _is_written_out(value, actual)
    ]
    return missing, [text for value, text in actual_numbers.items() if value not in expected_numbers]


def _find_numbers(text: str) -> dict[str, str]:
    """Return the numbers of a text: value → as it is written. Numbers of a numbered list are left out."""
    plain = text.translate(_MINUS_SIGNS)
    if len(_LIST_MARKER.findall(plain)) > 1:
        plain = _LIST_MARKER.sub("", plain)
    numbers: dict[str, str] = {}
    for match in _NUMBER.finditer(plain):
        for number in _split_list(match.group()):
            numbers.setdefault(_number_value(number), number)
    return numbers


def _split_list(text: str) -> list[str]:
    """Return the numbers of a list without spaces, such as 1,2,3."""
    is_list = text.count(",") > 1 and not any(pattern.fullmatch(text) for pattern in _THOUSANDS)
    return text.split(",") if is_list else [text]


def _number_value(text: str) -> str:
    """Return a number in one spelling; what is no single number, such as 1.2.3, as it is written."""
    if any(pattern.fullmatch(text) for pattern in _THOUSANDS):
        number = re.sub(r"[,'\u2019\u00a0\u202f\u2009](?=\d{3})", "", text).replace(",", ".")
    elif _POINTS_AS_THOUSANDS.fullmatch(text):
        number = text.replace(".", "").replace(",", ".")
    elif _COMMA_AS_POINT.fullmatch(text):
        number = text.replace(",", ".")
    else:
        number = text
    try:
        return f"{Decimal(number):f}".rstrip("0").rstrip(".") if "." in number else f"{Decimal(number):f}"
    except InvalidOperation:
        return text


def _is_written_out(value: str, text: str) -> bool:
    """Tell whether a text has a small number as an English word, or as the name of a month."""
    if not value.isdecimal() or len(value) > 2 or int(value) >= len(_WORDS):
        return False
    index = int(value)
    names = [_WORDS[index], *((calendar.month_name[index], calendar.month_abbr[index]) if index else ())]
    return any(re.search(rf"\b{name}\b", text, re.IGNORECASE) for name in names if name)


def _join_numbers(numbers: list[str]) -> str:
    return join_names([truncate(number, NUMBER_LENGTH) for number in numbers], NUMBERS_SHOWN)
