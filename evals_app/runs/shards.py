"""Shards: parts of the cases of a run, for several machines. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sessions_app.store.errors import BadInput

MAX_SHARDS = 1_000

Case = TypeVar("Case")


@dataclass(frozen=True)
class Shard:
    """Part `number` of `count`. The cases of all evalsets are dealt in turns; `dealt` of them have been dealt before.

    So the parts differ by at most one case, and neighbouring cases, which often take equally long, are spread.
    """

    number: int
    count: int
    dealt: int = 0

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse `i/n`.

        Raises:
            BadInput: the text is no part of a whole.
        """
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text.strip(), re.ASCII)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.number <= shard.count <= MAX_SHARDS:
            raise BadInput(
                f"{text!r} is no shard: i/n, with i from 1 to n and n at most {MAX_SHARDS:,}.",
                hint="For example --shard 2/4 for the second of four machines.",
            )
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def choose(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases of this part."""
        return [case for index, case in enumerate(cases, self.dealt) if index % self.count == self.number - 1]

    def after(self, cases: Sequence[Case]) -> Shard:
        """Return this part for the evalset that follows these cases."""
        return replace(self, dealt=self.dealt + len(cases))
