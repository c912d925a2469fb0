"""Where this store keeps what it is given, and whether that survives a restart."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from sessions_app import faults


@dataclass(frozen=True, slots=True)
class Place:
    """A store as a person may ask for it.

    Attributes:
        kind: what it is, in words.
        where: its file, or its database and server; empty when it has no name.
        survives_restart: what is stored is there when the server starts again.
    """

    kind: str
    where: str
    survives_restart: bool


def place() -> Place:
    """Return where sessions are kept. No query is made."""
    database = connection.settings_dict
    where = faults.name_of(database, connection.vendor)
    if connection.vendor == "postgresql":
        return Place("PostgreSQL", where, survives_restart=True)
    file = str(database["NAME"])
    if file == getattr(settings, "DEVUI_TEMPORARY_STORE", ""):
        return Place("a temporary file", "", survives_restart=False)
    if ":memory:" in file or "mode=memory" in file:
        return Place("memory", "", survives_restart=False)
    return Place("SQLite", where, survives_restart=True)
