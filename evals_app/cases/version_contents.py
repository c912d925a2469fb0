"""Cached contents of evalset versions, which never change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from evals_app.files.fixtures import FIXTURES, SourcedToolFixtures, merge_fixtures, read_case_fixtures
from evals_app.models import EvalSetVersion

CACHED_VERSIONS = 2
"""Cached versions: those of two compared runs."""


def version_cases(version: EvalSetVersion) -> Sequence[Mapping[str, Any]]:
    """Return the cases of a version as JSON, snake case, in file order. Callers must not change them."""
    return read_cases(version.pk, version.digest)


def read_cases(pk: int, digest: str) -> Sequence[Mapping[str, Any]]:
    """Return the cases of a version. The digest distinguishes stores with equal keys."""
    cases: list[Mapping[str, Any]] = _read_content(pk, digest)["eval_cases"]
    return cases


@lru_cache(maxsize=128)
def read_fixtures(pk: int, digest: str) -> Sequence[Sequence[SourcedToolFixtures]]:
    """Return the fixtures of each case of a version, with those of the evalset, in file order."""
    return read_case_fixtures(_read_content(pk, digest))


def read_shared_fixtures(pk: int, digest: str) -> Sequence[SourcedToolFixtures]:
    """Return the fixtures of the evalset of a version, which its cases share."""
    return merge_fixtures(_read_content(pk, digest).get(FIXTURES) or [], ())


@lru_cache(maxsize=CACHED_VERSIONS)
def _read_content(pk: int, digest: str) -> Mapping[str, Any]:
    content = EvalSetVersion.objects.values_list("content", flat=True).get(pk=pk, digest=digest)
    parsed: Mapping[str, Any] = json.loads(content)
    return parsed
