"""Rate limits of models, from the file `rate_limits.toml` of the agents folder or DevUI's data folder.

```toml
[[limit]]
model = "gemini-2.5-flash"      # a name, or a pattern such as "gemini-2.5-*"
requests_per_minute = 60
tokens_per_minute = 1_000_000   # input and output
```
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sessions_app.file_problems import read_toml
from sessions_app.prices import price_folders
from sessions_app.prices.model_pattern import ModelPattern

NAME = "rate_limits.toml"

HINT = 'An entry: [[limit]] model = "…", requests_per_minute, tokens_per_minute.'

MAX_PER_MINUTE = 10**12

PerMinute = Annotated[int, Field(ge=1, le=MAX_PER_MINUTE, strict=True)]


class RateLimit(ModelPattern):
    """Maximum requests and tokens a minute of each model that matches a pattern; None: no limit."""

    requests_per_minute: PerMinute | None = None
    tokens_per_minute: PerMinute | None = None

    @model_validator(mode="after")
    def _require_limit(self) -> Self:
        if self.requests_per_minute is None and self.tokens_per_minute is None:
            raise ValueError("needs requests_per_minute or tokens_per_minute")
        return self

    def __str__(self) -> str:
        return describe_limit(self.requests_per_minute, self.tokens_per_minute)


class _LimitFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: list[RateLimit] = []


@dataclass(frozen=True)
class RateLimits:
    """The limits of all models."""

    limits: tuple[RateLimit, ...] = ()

    def find_limit(self, model: str) -> RateLimit | None:
        """Return the limit of a model. A name precedes a pattern, a longer pattern a shorter one."""
        matching = (limit for limit in self.limits if limit.names(model))
        return max(matching, key=lambda limit: limit.precedence, default=None)


NO_LIMITS = RateLimits()


def find_rate_limits(folders: Iterable[Path] = ()) -> RateLimits:
    """Return the limits of the first folder with a file: of `folders`, then of this server's folders.

    Raises:
        BadFile: the file is invalid.
    """
    for path in (folder / NAME for folder in [*folders, *price_folders()]):
        if path.exists():
            return RateLimits(tuple(read_toml(path, _LimitFile, hint=HINT).limit))
    return NO_LIMITS


def describe_limit(requests: int | None, tokens: int | None) -> str:
    """Return a limit in words, such as "60 requests and 1,000,000 tokens a minute"."""
    parts = [f"{number:,} {noun}" for number, noun in ((requests, "requests"), (tokens, "tokens")) if number]
    return f"{' and '.join(parts)} a minute"
