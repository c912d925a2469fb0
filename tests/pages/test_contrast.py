"""WCAG AA contrast in both themes, from the design tokens: text 4.5:1, controls 3:1."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sessions_app.store.events import EventKind

CSS = Path(__file__).resolve().parents[2] / "static/devui/css"
TOKENS = dict(
    re.findall(r"--([\w-]+): (light-dark\([^)]+\));", (CSS / "base/tokens.css").read_text(), re.MULTILINE)
)
SURFACES = ("bg", "bg-sunken", "bg-raised", "bg-hover", "bg-selected")
TEXT = ("text", "text-soft", "text-faint", "accent")
ON_THEIR_TINT = ("ok", "warn", "danger", "info", "idle", "added", "removed")
SCOPES = ("session", "user", "app", "temp")
FILLS = ("accent-fill", "accent-fill-hover", "danger-fill", "danger-fill-hover")

PAIRS = [
    *((text, surface, 4.5) for text in TEXT for surface in SURFACES),
    *((name, f"{name}-bg", 4.5) for name in ON_THEIR_TINT),
    *((f"scope-{scope}", f"scope-{scope}-bg", 4.5) for scope in SCOPES),
    *((f"scope-{scope}", surface, 3.0) for scope in SCOPES for surface in SURFACES),
    *((f"kind-{kind}", surface, 3.0) for kind in EventKind for surface in SURFACES),
    *((f"json-{part}", surface, 4.5) for part in ("key", "string", "number", "word") for surface in SURFACES),
    *((name, surface, 4.5) for name in ("danger", "ok", "warn") for surface in SURFACES),
    *(("on-accent", fill, 4.5) for fill in FILLS),
    *(("line-control", surface, 3.0) for surface in ("bg", "bg-raised", "bg-sunken")),
    *(("focus", surface, 3.0) for surface in SURFACES),
    ("text", "mark", 4.5),
]


def colours(token: str) -> tuple[str, str]:
    """Return a token's colour in the light and in the dark theme."""
    light, dark = re.findall(r"#[0-9a-f]{6}", TOKENS[token])
    return light, dark


def luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2.2)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, other: str) -> float:
    """Return the contrast ratio of two colours."""
    lighter, darker = sorted((luminance(first), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("front", "back", "least"), PAIRS)
def test_a_pair_of_colours_can_be_read_in_both_themes(front: str, back: str, least: float):
    for theme, colour, other in zip(("light", "dark"), colours(front), colours(back), strict=True):
        assert contrast(colour, other) >= least, f"{front} on {back}, {theme}: {contrast(colour, other):.2f}"


def test_styles_use_tokens_and_no_colours_of_their_own():
    for sheet in sorted(CSS.rglob("*.css")):
        if sheet.name != "tokens.css":
            text = re.sub(r"/\*.*?\*/", "", sheet.read_text(), flags=re.DOTALL)
            assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?=[^{}]*[;}])|rgba?\(|hsla?\(", text), sheet.name


def test_every_token_that_is_used_is_defined():
    defined = {name for sheet in CSS.rglob("*.css") for name in re.findall(r"--([\w-]+):", sheet.read_text())}
    for sheet in sorted(CSS.rglob("*.css")):
        assert set(re.findall(r"var\(--([\w-]+)", sheet.read_text())) <= defined, sheet.name
