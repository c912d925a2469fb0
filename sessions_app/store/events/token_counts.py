"""Token counts that a model reports for a call. Pure."""

from __future__ import annotations

from collections.abc import Callable

FIELDS = {
    "prompt": "prompt_token_count",
    "output": "candidates_token_count",
    "total": "total_token_count",
    "cached": "cached_content_token_count",
    "thoughts": "thoughts_token_count",
}
"""Fields of genai's usage metadata, by the kind of token."""

TOOL_PROMPT = "tool_use_prompt_token_count"
"""Field with the tokens of results of Gemini's own tools, which are input beside the prompt."""


def count_tokens(read_field: Callable[[str], object]) -> dict[str, int]:
    """Return the counts above zero. Results of the model's own tools are part of the prompt.

    A model that reports no total, but parts of one, used their sum: then thoughts count beside the output, as in
    `call_usage.split_tokens`.

    Args:
        read_field: function that returns the value of a field of the usage metadata, by its name in Python.
    """
    counts = {kind: _whole_count(read_field(name)) for kind, name in FIELDS.items()}
    counts["prompt"] += _whole_count(read_field(TOOL_PROMPT))
    counts["total"] = counts["total"] or counts["prompt"] + counts["output"] + counts["thoughts"]
    return {kind: count for kind, count in counts.items() if count > 0}


def _whole_count(value: object) -> int:
    """Return a count, which some writers of JSON give as a float (12.0); 0 for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
