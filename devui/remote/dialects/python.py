"""Dialect of ADK's server for Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devui.remote.dialects import Dialect


class PythonDialect(Dialect):
    """ADK's server for Python; older ones have no `/version`."""

    def matches(self, language: str, headers: Mapping[str, str]) -> bool:
        """Tell whether the server names Python or, if it names no language, uses Python's web server."""
        has_its_server = "uvicorn" in headers.get("server", "").lower()
        return super().matches(language, headers) or (not language and has_its_server)

    def run_body(self, app: str, user_id: str, session_id: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a run. Without the extra field, an artifact splits its event into two with the same id."""
        return super().run_body(app, user_id, session_id, request) | {"functionCallEventId": "whole"}


PYTHON = PythonDialect(
    names=("python",),
    label="Python",
    has_id_in_body=True,
    run_fields=frozenset({"stateDelta", "invocationId", "customMetadata"}),
    can_patch_state=True,
    accepts_events=True,
)
