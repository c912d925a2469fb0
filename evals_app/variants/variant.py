"""A variant: named changes of agents, which the process of the agent applies to copies of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

from evals_app.files.plain_yaml import dump_yaml
from evals_app.models import EvalRun
from sessions_app.store import scopes
from sessions_app.store.errors import BadInput, NotFound

MAX_VARIANTS = 4
"""Most variants that are compared with one run of the original."""

ORIGINAL = "original"
"""Name of the agent as it is in its files, beside its variants."""


@dataclass(frozen=True)
class Variant:
    """Changes of agents.

    Attributes:
        name: what people call it.
        note: comment of its author.
        patch: agent → field → new value, as in the `agents` of a variant file.
    """

    name: str
    note: str
    patch: Mapping[str, Mapping[str, Any]]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the variant of a column of `EvalRun`."""
        data = json.loads(text)
        return cls(data["name"], data["note"], data["agents"])

    def as_json(self) -> str:
        """Return the variant as JSON text."""
        return scopes.dumps({"name": self.name, "note": self.note, "agents": self.patch})

    @property
    def file_text(self) -> str:
        """The variant as a file in YAML."""
        note = {"note": self.note} if self.note else {}
        return dump_yaml({"name": self.name, **note, "agents": self.patch})

    @property
    def patch_text(self) -> str:
        """Its changes as they are written in a file, in YAML."""
        return dump_yaml({"agents": self.patch})

    @cached_property
    def hash(self) -> str:
        """Hash of what it changes, independent of its name and note."""
        return sha256(json.dumps(self.patch, sort_keys=True).encode()).hexdigest()[:16]


def read_run_variant(run: EvalRun) -> Variant | None:
    """Return the variant of a run; None for a run of the original."""
    return Variant.from_json(run.variant) if run.variant else None


def require_run_variant(run: EvalRun) -> Variant:
    """Return the variant of a run.

    Raises:
        NotFound: the run is of the original.
    """
    if variant := read_run_variant(run):
        return variant
    raise NotFound(
        f"Run {run.pk} has no variant: it ran the original agent.", hint="Open the run of a variant."
    )


def require_few_variants(count: int) -> None:
    """Require a number of variants that can be compared with one run.

    Raises:
        BadInput: there are too many.
    """
    if count > MAX_VARIANTS:
        raise BadInput(
            f"{count} variants are given; at most {MAX_VARIANTS} can be compared with one run.",
            hint="Compare them in several runs.",
        )


def require_distinct_variants(variants: Sequence[Variant]) -> None:
    """Require variants that can be compared with each other.

    Raises:
        BadInput: there are too many, or two have the same name or the same changes.
    """
    require_few_variants(len(variants))
    names = Counter(variant.name for variant in variants)
    if repeated_names := [name for name, count in names.items() if count > 1]:
        raise BadInput(
            f"Two variants have the name {repeated_names[0]!r}.", hint="Give each a name of its own."
        )
    by_hash: dict[str, str] = {}
    for variant in variants:
        other = by_hash.setdefault(variant.hash, variant.name)
        if other != variant.name:
            raise BadInput(
                f"The variants {other!r} and {variant.name!r} make the same changes.",
                hint="Leave out one of them.",
            )
