"""The README of an agent's folder, for its page."""

from __future__ import annotations

from sessions_app.agents.folder import configured_folder
from sessions_app.store.errors import DevUIError
from sessions_app.store.redaction import redact_text

NAMES = ("README.md", "readme.md")

MAX_README_BYTES = 50_000
"""Longest README that is shown; of a longer one the beginning is."""


def read_readme(app_name: str) -> str:
    """Return the README of an agent's folder without credentials; empty if there is none, or it is a link elsewhere."""
    folder = configured_folder()
    try:
        app_folder = folder.app_folder(app_name).resolve() if folder else None
    except (DevUIError, OSError):
        return ""
    if app_folder is None:
        return ""
    for path in (app_folder / name for name in NAMES):
        try:
            if path.resolve().parent != app_folder or not path.is_file():
                continue
            with path.open("rb") as file:
                return redact_text(file.read(MAX_README_BYTES).decode("utf-8-sig", errors="replace"))
        except OSError:
            continue
    return ""
