"""Versions of an evalset and their differences, case by case."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from evals_app.files.pairing import is_same_json, pair_items
from evals_app.models import EvalSet, EvalSetVersion
from sessions_app import scopes
from sessions_app.errors import NotFound
from sessions_app.presentation import value_diff

Json = dict[str, Any]

MAX_LISTED = 30
"""Most versions that a page lists."""

DESCRIPTION_FIELDS = ("name", "description")


@dataclass(frozen=True)
class CaseDiff:
    """Difference of a case between two versions. `kind` is added, removed, changed, renamed or moved."""

    case_id: str
    kind: str
    was: str
    lines: list[value_diff.DiffLine]


@dataclass(frozen=True)
class VersionRow:
    """Version with its changes since the previous one and its number of runs."""

    version: EvalSetVersion
    before: EvalSetVersion | None
    changes: list[CaseDiff]
    cases: int
    runs: int
    is_current: bool

    @property
    def tally(self) -> list[tuple[str, int]]:
        """Return (kind, number) for each kind of change that occurs."""
        counts = Counter(change.kind for change in self.changes)
        kinds = ("added", "removed", "renamed", "changed", "moved")
        return [(kind, counts[kind]) for kind in kinds if counts[kind]]


def list_versions(evalset: EvalSet, case_id: str = "") -> list[VersionRow]:
    """Return the versions of an evalset, newest first; with `case_id`, only those that changed the case."""
    rows = list(
        evalset.versions.annotate(run_count=Count("runs")).order_by("-created_at", "-pk")[: MAX_LISTED + 1]
    )
    contents = [json.loads(row.content) for row in rows]
    version_rows = []
    for at, row in enumerate(rows[:MAX_LISTED]):
        before = rows[at + 1] if at + 1 < len(rows) else None
        older = contents[at + 1]["eval_cases"] if before else []
        changes = diff_cases(older, contents[at]["eval_cases"], with_lines=False)
        if case_id and not any(case_id in (one.case_id, one.was) and one.kind != "moved" for one in changes):
            continue
        cases, is_current = len(contents[at]["eval_cases"]), row.digest == evalset.digest
        version_rows.append(VersionRow(row, before, changes, cases, row.run_count, is_current))
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
    """Return the differences of two versions: name and description as case "", then the cases."""
    older_content, right = json.loads(older.content), json.loads(newer.content)
    diffs = diff_cases(older_content["eval_cases"], right["eval_cases"])
    about = [
        {name: one[name] for name in DESCRIPTION_FIELDS if one.get(name)} for one in (older_content, right)
    ]
    if not is_same_json(*about):
        diffs.insert(0, CaseDiff("", "changed", "", _diff_lines(*about)))
    return [one for one in diffs if not case_id or case_id in (one.case_id, one.was)]


def diff_cases(older: Sequence[Json], newer: Sequence[Json], *, with_lines: bool = True) -> list[CaseDiff]:
    """Return the differing cases in the order of the newer list, then the removed ones."""
    places = pair_cases(older, newer)
    kept_places = [place for place in places if place is not None]
    diffs = []
    for place, case in zip(places, newer, strict=True):
        before = None if place is None else older[place]
        kind = _change_kind(before, case, place, kept_places)
        if kind:
            lines = _diff_lines(before, case) if with_lines and kind != "moved" else []
            was = str(before["eval_id"]) if before and kind == "renamed" else ""
            diffs.append(CaseDiff(str(case.get("eval_id")), kind, was, lines))
    for at, case in enumerate(older):
        if at not in kept_places:
            lines = _diff_lines(case, None) if with_lines else []
            diffs.append(CaseDiff(str(case.get("eval_id")), "removed", "", lines))
    return diffs


def pair_cases(older: Sequence[Json], newer: Sequence[Json]) -> list[int | None]:
    """Match cases as `pair_items` does, but cases with different ids only if they are otherwise equal."""
    places = pair_items(older, newer)
    return [
        None if place is not None and not _is_same_case(older[place], case) else place
        for place, case in zip(places, newer, strict=True)
    ]


def _is_same_case(old: Json, new: Json) -> bool:
    return old.get("eval_id") == new.get("eval_id") or is_same_json(
        {**old, "eval_id": ""}, {**new, "eval_id": ""}
    )


def _change_kind(before: Json | None, case: Json, place: int | None, kept_places: list[int]) -> str:
    if before is None:
        return "added"
    if before.get("eval_id") != case.get("eval_id"):
        return "renamed"
    if not is_same_json(before, case):
        return "changed"
    return (
        "moved"
        if kept_places != sorted(kept_places)
        and kept_places.index(place or 0) != sorted(kept_places).index(place or 0)
        else ""
    )


def _diff_lines(old: Any, new: Any) -> list[value_diff.DiffLine]:
    texts = [None if value is None else scopes.dumps(value) for value in (old, new)]
    return value_diff.diff_lines(*texts)
