"""A price list, and events with tokens."""

from __future__ import annotations

from typing import Any

PRICES = """
[[price]]
model = "fast"
input = 1
cached = 0.5
output = 4
thoughts = 8

[[price]]
model = "free"
input = 0
output = 0

[[price]]
model = "dated"
input = 1
output = 1

[[price]]
model = "dated"
from = 2023-11-15
input = 10
output = 10
"""
MILLION = 1_000_000


def used(model: str = "fast", prompt: int = MILLION, output: int = MILLION, **more: int) -> dict[str, Any]:
    """Return the fields of an event with tokens."""
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": output, **more}
    return {"modelVersion": model, "usageMetadata": {"totalTokenCount": prompt + output, **usage}}
