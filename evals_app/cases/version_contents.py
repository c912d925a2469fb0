"""Cached cases of evalset versions, which never change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from evals_app.models import EvalSetVersion

CACHED_VERSIONS = 2
"""Cached versions: those of two compared runs."""


def version_cases(version: EvalSetVersion) -> Sequence[Mapping[str, Any]]:
    """Return the cases of a version as JSON, snake case, in file order. Callers must not change them."""
    return read_cases(version.pk, version.digest)


@lru_cache(maxsize=CACHED_VERSIONS)
def read_cases(pk: int, digest: str) -> Sequence[Mapping[str, Any]]:
    """Return the cases of a version. The digest distinguishes stores with equal keys."""
    content = EvalSetVersion.objects.values_list("content", flat=True).get(pk=pk, digest=digest)
    cases: list[Mapping[str, Any]] = json.loads(content)["eval_cases"]
    return cases
