"""Dialect of ADK's server for JavaScript."""

from __future__ import annotations

from collections.abc import Mapping

from devui.remote.dialects import Dialect
from devui.remote.responses import RemoteEvent, ReportedFailure


class JavaScriptDialect(Dialect):
    """ADK's server for JavaScript. It reports an agent's exception as an event."""

    def matches(self, language: str, headers: Mapping[str, str]) -> bool:
        """Tell whether the server names JavaScript or, if it names no language, uses JavaScript's web framework."""
        has_its_framework = "express" in headers.get("x-powered-by", "").lower()
        return super().matches(language, headers) or (not language and has_its_framework)

    def find_failure(self, event: RemoteEvent) -> ReportedFailure | None:
        """Return the error that an event contains."""
        code, message = event.wire.get("errorCode"), event.wire.get("errorMessage")
        return ReportedFailure(code or "RemoteError", message or "") if code or message else None


JAVASCRIPT = JavaScriptDialect(
    names=("js", "javascript", "typescript", "node", "nodejs"), label="JavaScript", has_live_runs=False
)
