"""What a run's error means when its name alone does not tell the way out. Pure."""

from __future__ import annotations

LIMIT = "LlmCallsLimitExceededError"

WORDS = {
    LIMIT: "The run reached max_llm_calls of its RunConfig and was ended there. Look at its last calls: an agent that"
    " goes round in circles calls the same tools again and again. If it needs more, raise the limit under Options.",
    "StaleSessionError": "Something else wrote to the session while the agent ran on an older copy of it. Send the"
    " message again; what both wrote is in the timeline.",
}


def of(error_type: str) -> str:
    """Return what an error of this type means, empty when its message says it."""
    return WORDS.get(error_type, "")
