"""Token usage of a model call by category (`google.genai`'s usage metadata). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sessions_app.timeline.event_fields import is_count, objects_field, other_fields

_COUNTS = frozenset(
    {
        "promptTokenCount",
        "candidatesTokenCount",
        "totalTokenCount",
        "cachedContentTokenCount",
        "thoughtsTokenCount",
        "toolUsePromptTokenCount",
    }
)
_DETAILS = {
    "promptTokensDetails": "prompt",
    "cacheTokensDetails": "cached",
    "toolUsePromptTokensDetails": "results of tools",
    "candidatesTokensDetails": "output",
}


@dataclass(frozen=True, slots=True)
class TokenShare:
    """Tokens of a category: count, and position and width in the bar in percent."""

    name: str
    label: str
    count: int
    start: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens by category. The shares in `bar` do not overlap; `cached` is a part of `prompt`.

    Attributes:
        modalities: (category, modality, count).
        more: other fields of the metadata.
    """

    total: int
    prompt: int
    cached: int
    bar: list[TokenShare]
    modalities: list[tuple[str, str, int]]
    more: dict[str, Any]

    @property
    def cached_percent(self) -> int:
        """Percentage of the prompt that came from the cache."""
        return round(100 * self.cached / self.prompt) if self.prompt else 0


def usage_of(metadata: Mapping[str, Any]) -> TokenUsage | None:
    """Return the token usage in an event's usage metadata; None if it is empty."""
    if not metadata:
        return None
    counts = {
        name: value for name, value in metadata.items() if name.endswith("TokenCount") and is_count(value)
    }
    cached, prompt = counts.get("cachedContentTokenCount", 0), counts.get("promptTokenCount", 0)
    shares = [
        TokenShare("cached", "prompt, from the cache", min(cached, prompt)),
        TokenShare("prompt", "prompt" if not cached else "prompt, not cached", max(0, prompt - cached)),
        TokenShare("tool", "results of tools", counts.get("toolUsePromptTokenCount", 0)),
        TokenShare("thoughts", "thoughts", counts.get("thoughtsTokenCount", 0)),
        TokenShare("output", "output", counts.get("candidatesTokenCount", 0)),
    ]
    return TokenUsage(
        total=counts.get("totalTokenCount", sum(share.count for share in shares)),
        prompt=prompt,
        cached=cached,
        bar=_place_shares([share for share in shares if share.count]),
        modalities=[
            (label, str(each.get("modality") or "?"), each["tokenCount"])
            for name, label in _DETAILS.items()
            for each in objects_field(metadata, name)
            if is_count(each.get("tokenCount"))
        ],
        more=other_fields({*_COUNTS, *_DETAILS}, metadata),
    )


def _place_shares(shares: list[TokenShare]) -> list[TokenShare]:
    whole = sum(share.count for share in shares)
    placed, start = [], 0.0
    for share in shares:
        width = 100 * share.count / whole
        placed.append(replace(share, start=round(start, 3), width=round(width, 3)))
        start += width
    return placed
