"""What the cases of a version say: it never changes, so the newest ones asked for stay read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from evals_app.models import EvalSetVersion

CACHED_VERSIONS = 2
"""Versions that stay read: the two runs that are compared."""


def cases_of(version: EvalSetVersion) -> Sequence[Mapping[str, Any]]:
    """Return the cases of a version as JSON, snake case, in the order of its file. They are not to be changed."""
    return read_cases(version.pk, version.digest)


@lru_cache(maxsize=CACHED_VERSIONS)
def read_cases(pk: int, digest: str) -> Sequence[Mapping[str, Any]]:
    """Return the cases of the version with this key; the digest tells those of other stores apart."""
    content = EvalSetVersion.objects.values_list("content", flat=True).get(pk=pk, digest=digest)
    cases: list[Mapping[str, Any]] = json.loads(content)["eval_cases"]
    return cases
