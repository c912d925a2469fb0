"""A dialect: the ADK server of a company that calls the author of an event its speaker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devui.remote.dialects import Dialect


class AcmeDialect(Dialect):
    """A server whose `/version` names the language `acme`."""

    def convert_event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the event with the field that ADK knows."""
        return {**event, "author": event.get("speaker", event.get("author"))}


ACME = AcmeDialect(names=("acme",), label="Acme", has_live_runs=False)
