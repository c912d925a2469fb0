"""Colors of logged and printed text: what a terminal would show, as HTML. Pure."""

from __future__ import annotations

import re

from django.utils.safestring import SafeString

from sessions_app.presentation.visible_text import strip_terminal_codes, text_html

MAX_COLORED = 2_000
"""Pieces of a text that are colored; what follows is plain, so that a hostile log cannot fill a page with elements."""

_RENDITION = re.compile(r"\x1b\[([0-9;]{0,40})m")
"""Select graphic rendition (ECMA-48): colors and weights."""

_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_OTHER_PALETTES = (38, 48)
_WEIGHTS = {1: "bold", 2: "dim"}


def terminal_html(text: str, most: int = MAX_COLORED) -> SafeString:
    """Return text as HTML, with its colors as classes and without its other control sequences.

    `most`: pieces that are colored; for each of many texts of a page fewer than for its only one.
    """
    if "\x1b" not in text:
        return text_html(text)
    first, *pieces = _RENDITION.split(text, maxsplit=most)
    html = [text_html(strip_terminal_codes(first))]
    styles: dict[str, str] = {}
    for codes, piece in zip(pieces[::2], pieces[1::2], strict=True):
        styles = _apply_codes(styles, codes)
        content = text_html(strip_terminal_codes(piece))
        names = " ".join(f"ansi-{name}" for name in styles.values())
        html.append(SafeString(f'<span class="{names}">{content}</span>') if names and content else content)
    return SafeString("".join(html))


def _apply_codes(styles: dict[str, str], codes: str) -> dict[str, str]:
    """Return the color and weight after a control sequence. Backgrounds and the 256 and true colors are left out."""
    changed = dict(styles)
    for number in (int(code or 0) for code in codes.split(";")):
        if number in _OTHER_PALETTES:
            break  # what follows are the numbers of its color
        if number == 0:
            changed.clear()
        elif number in _WEIGHTS:
            changed["weight"] = _WEIGHTS[number]
        elif number == 22:
            changed.pop("weight", None)
        elif number == 39:
            changed.pop("color", None)
        elif number // 10 in (3, 9) and number % 10 < len(_COLORS):
            changed["color"] = _COLORS[number % 10]
    return changed
