"""A name with many invisible characters, and a check that a page shows them all."""

from __future__ import annotations

from tests.pages.html import parse

EVIL = "e\u202e\u200b\x07\u2066\ufeff\U000e0041l"
UNSEEN = set(EVIL) - set("el")
MACHINE = ("value", "data-")
"""Attributes that a program reads back: they hold the very text, as fields of forms do that people write in."""


def assert_shown(html: str, where: str) -> None:
    """Assert that nothing unseen stands in the text or in an attribute that people read or hear."""
    page = parse(html)
    for element in page:
        for name, value in element.attrs.items():
            if not name.startswith(MACHINE) or name == "data-label":
                assert not UNSEEN & set(value), f"{where}: {name}={value!a}"
        for child in element.children:
            if isinstance(child, str) and element.tag != "textarea":
                assert not UNSEEN & set(child), f"{where}: <{element.tag} {element.classes}> {child!a}"
