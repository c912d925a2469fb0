"""Versions of an evalset and their differences, case by case."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from evals_app.files.fixtures import FIXTURES
from evals_app.files.pairing import is_same_json
from evals_app.models import EvalSet, EvalSetVersion
from sessions_app.presentation import value_diff
from sessions_app.store import scopes
from sessions_app.store.errors import NotFound

Parts = dict[str, dict[str, Any]]
"""Cases of a version by id, and its name, description and shared fixtures as the case ""."""

MAX_LISTED = 30
"""Most versions that a page lists."""


@dataclass(frozen=True)
class CaseDiff:
    """Difference of a case between two versions. `kind` is added, removed or changed."""

    case_id: str
    kind: str
    lines: list[value_diff.DiffLine]


@dataclass(frozen=True)
class VersionRow:
    """Version with its changes since the previous one, as (kind, number), and its number of runs."""

    version: EvalSetVersion
    before: EvalSetVersion | None
    tally: list[tuple[str, int]]
    cases: int
    runs: int
    is_current: bool


def list_versions(evalset: EvalSet, case_id: str = "") -> list[VersionRow]:
    """Return the versions of an evalset, newest first; with `case_id`, only those that changed the case."""
    rows = list(
        evalset.versions.annotate(run_count=Count("runs")).order_by("-created_at", "-pk")[: MAX_LISTED + 1]
    )
    contents = [_version_parts(row) for row in rows]
    version_rows = []
    for index, row in enumerate(rows[:MAX_LISTED]):
        before, older = (rows[index + 1], contents[index + 1]) if index + 1 < len(rows) else (None, {})
        kinds = {name: _change_kind(older, contents[index], name) for name in older | contents[index] if name}
        if case_id and not kinds.get(case_id):
            continue
        counts = [(kind, list(kinds.values()).count(kind)) for kind in ("added", "removed", "changed")]
        cases, is_current = len(contents[index]) - 1, row.digest == evalset.digest
        tally = [(kind, count) for kind, count in counts if count]
        version_rows.append(VersionRow(row, before, tally, cases, row.run_count, is_current))
    return version_rows


def find_version(evalset: EvalSet, pk: int) -> EvalSetVersion:
    """Return a version of an evalset.

    Raises:
        NotFound: the evalset has no such version.
    """
    version = evalset.versions.filter(pk=pk).first()
    if version is None:
        raise NotFound(
            f"Evalset {evalset.evalset_id!r} has no version {pk}.", hint="The list of versions has them all."
        )
    return version


def compare_versions(older: EvalSetVersion, newer: EvalSetVersion, case_id: str = "") -> list[CaseDiff]:
    """Return the differences of two versions: name, description and shared fixtures as case "", then the cases."""
    before, after = _version_parts(older), _version_parts(newer)
    names = [case_id] if case_id else [*after, *(name for name in before if name not in after)]
    diffs = []
    for name in names:
        if kind := _change_kind(before, after, name):
            texts = [scopes.dumps(parts[name]) if name in parts else None for parts in (before, after)]
            diffs.append(CaseDiff(name, kind, value_diff.diff_lines(*texts)))
    return diffs


def _version_parts(version: EvalSetVersion) -> Parts:
    content = json.loads(version.content)
    about = {name: content[name] for name in ("name", "description", FIXTURES) if content.get(name)}
    return {"": about} | {str(case.get("eval_id")): case for case in content["eval_cases"]}


def _change_kind(before: Parts, after: Parts, name: str) -> str:
    """Return how a case changed; "" if it did not."""
    if name not in before or name not in after:
        return "added" if name in after else "removed" if name in before else ""
    return "" if is_same_json(before[name], after[name]) else "changed"
