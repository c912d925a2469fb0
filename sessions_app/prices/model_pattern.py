"""Names and patterns of models in files that people write."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class ModelPattern(BaseModel):
    """An entry for the models that match a name or a pattern, such as "gemini-2.5-*"."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    model: Annotated[str, Field(min_length=1)]

    @property
    def is_pattern(self) -> bool:
        """Tell whether the entry may match several models."""
        return any(sign in self.model for sign in "*?[")

    @property
    def precedence(self) -> tuple[bool, int]:
        """A name precedes a pattern, a longer pattern a shorter one."""
        return not self.is_pattern, len(self.model)

    def names(self, model: str) -> bool:
        """Tell whether the entry applies to a model; `models/x` and `vendor/x` match `x`, too."""
        return any(fnmatchcase(name, self.model) for name in {model, model.rpartition("/")[2]})
