"""Explanations of errors of runs and of agents that fail to load, if the message does not show what to do. Pure."""

from __future__ import annotations

import re

CALL_LIMIT_ERROR = "LlmCallsLimitExceededError"

PAUSE_EXPIRED = "PauseExpired"
"""Error type of a run that was paused for longer than its limit."""

HINTS = {
    PAUSE_EXPIRED: (
        "The run waited at a pause point and nobody decided in time. Run it again; under Pause at you can set how many"
        " minutes a pause may last."
    ),
    CALL_LIMIT_ERROR: (
        "The run reached max_llm_calls of its RunConfig and was stopped. Look at its last calls: an agent in a loop"
        " repeats the same tool calls. If the agent needs more calls, raise the limit under Options."
    ),
    "StaleSessionError": (
        "Another writer changed the session while the agent ran on an older copy. Send the message again; the"
        " timeline shows what both wrote."
    ),
}

_MISSING_MCP = re.compile(
    r"No module named 'mcp'|cannot import name '\w+' from 'google\.adk\.tools\.mcp_tool'"
)
"""Messages of import errors without the package `mcp`. ADK's `mcp_tool` loads without it, but is empty then."""


def hint_for(error_type: str) -> str:
    """Return the explanation of an error type; empty when its message suffices."""
    return HINTS.get(error_type, "")


def load_hint(error_type: str, message: str) -> str:
    """Return how to fix an error with which an agent failed to load; empty when its message suffices."""
    is_import_error = error_type in {"ImportError", "ModuleNotFoundError"}
    if is_import_error and _MISSING_MCP.search(message):
        return (
            "The tools of MCP servers need the package `mcp`. Install it where this server is installed:"
            " `pip install 'google-adk[mcp]'`. Then restart the server."
        )
    return ""
