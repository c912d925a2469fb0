"""adk-rust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devui.remote.dialects import Dialect
from sessions_app.transfer.readers import rust


class RustDialect(Dialect):
    """adk-rust's server. The kind of a part follows from its fields."""

    def convert_event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event with tagged parts and with the fields of its model response at the top level."""
        response = event.get("llm_response")
        fields = {**(response if isinstance(response, dict) else {}), **event}
        fields.pop("llm_response", None)
        content = fields.get("content")
        if isinstance(content, dict) and isinstance(content.get("parts"), list):
            fields["content"] = {**content, "parts": [rust.convert_part(part) for part in content["parts"]]}
        return fields


RUST = RustDialect(names=("rust",), label="Rust", root_path="/api", has_live_runs=False)
