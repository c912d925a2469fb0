"""Dialect of adk-rust's server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devui.remote.dialects import Dialect
from sessions_app.transfer.readers.formats import adk_rust


class RustDialect(Dialect):
    """adk-rust's server. The kind of a part follows from its fields."""

    def convert_event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event with tagged parts and with the fields of its model response at the top level."""
        return adk_rust.convert_event(event)


RUST = RustDialect(names=("rust",), label="Rust", root_path="/api", has_live_runs=False)
