"""Cached tags of the cases of evalset versions, which never change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from evals_app.cases import version_contents
from evals_app.files.tags import UNTAGGED, read_tags
from evals_app.models import EvalSetVersion


def tags_by_index(version: EvalSetVersion) -> Sequence[Sequence[str]]:
    """Return the tags of each case of a version in file order; of a case without tags it is `untagged`."""
    return _read_version(version.pk, version.digest)


@lru_cache(maxsize=128)
def _read_version(pk: int, digest: str) -> Sequence[Sequence[str]]:
    return [read_tags(case) or (UNTAGGED,) for case in version_contents.read_cases(pk, digest)]
