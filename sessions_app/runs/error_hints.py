"""Explanations of run errors whose message alone does not show what to do. Pure."""

from __future__ import annotations

CALL_LIMIT_ERROR = "LlmCallsLimitExceededError"

HINTS = {
    CALL_LIMIT_ERROR: (
        "The run reached max_llm_calls of its RunConfig and was stopped. Look at its last calls: an agent in a loop"
        " repeats the same tool calls. If the agent needs more calls, raise the limit under Options."
    ),
    "StaleSessionError": (
        "Another writer changed the session while the agent ran on an older copy. Send the message again; the"
        " timeline shows what both wrote."
    ),
}


def hint_for(error_type: str) -> str:
    """Return the explanation of an error type; empty when its message suffices."""
    return HINTS.get(error_type, "")
