"""Comparability of outcomes of two runs: the same case as agents and judges see it, and common criteria.

A changed threshold, or an added or removed metric, does not make runs incomparable: scores are stored, so outcomes are
judged again by the metrics that both runs have (`judge_again`). Read-only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from evals_app.analysis.outcomes import CaseKey, Sameness
from evals_app.cases import version_contents
from evals_app.files.fixtures import FIXTURES
from evals_app.files.tags import TAGS
from evals_app.metrics.gate_config import GATE
from evals_app.models import EvalAttempt, EvalRun, EvalSetVersion, MetricResult
from evals_app.runs.attempt_status import has_outcome

Status = EvalAttempt.Status

Basis = Mapping[str, float]
"""Metrics by which outcomes are judged again, with their thresholds."""

_UNSEEN = {"creation_timestamp", "invocation_id", TAGS, FIXTURES}
"""Fields of a case that judges and agents never see. Fixtures are compared apart, with those of the evalset."""

_JUDGED_APART = {"criteria", "custom_metrics", GATE}
"""Fields of a configuration that belong to single metrics, or judge no attempt."""


@dataclass(frozen=True)
class VersionCase:
    """A case of a version: what names it, and a digest of what it says."""

    key: CaseKey
    digest: str


def read_cases(version: EvalSetVersion) -> Sequence[VersionCase]:
    """Return the cases of a version in the order of its file."""
    return _read_cases(version.pk, version.digest)


@lru_cache(maxsize=128)
def _read_cases(pk: int, digest: str) -> Sequence[VersionCase]:
    """Return the cases of a version, which never changes; the digest tells stores apart."""
    numbers: Counter[str] = Counter()
    cases = []
    contents = version_contents.read_cases(pk, digest), version_contents.read_fixtures(pk, digest)
    for case, fixtures in zip(*contents, strict=True):
        numbers[case["eval_id"]] += 1
        key = CaseKey(case["eval_id"], numbers[case["eval_id"]])
        by_tool = {tool_fixtures.tool: tool_fixtures.data for tool_fixtures in fixtures}
        cases.append(VersionCase(key, digest_json([_comparable_case(case), by_tool])))
    return cases


def _comparable_case(value: Any) -> Any:
    """Return a case without what judges and agents never see, and without empty fields."""
    if isinstance(value, Mapping):
        fields = {name: _comparable_case(item) for name, item in value.items() if name not in _UNSEEN}
        return {name: field for name, field in fields.items() if field not in (None, [], {})}
    return [_comparable_case(item) for item in value] if isinstance(value, list) else value


def digest_json(value: Any) -> str:
    """Return a digest of a JSON value, independent of the order of its keys."""
    return sha256(json.dumps(value, sort_keys=True).encode(errors="replace")).hexdigest()[:16]


@dataclass(frozen=True)
class Judging:
    """Metrics and thresholds by which a run was judged.

    Attributes:
        metrics: by name, a digest of the criterion without its threshold.
        thresholds: by name.
        context: digest of what concerns all metrics, such as the simulated user.
    """

    metrics: Mapping[str, str]
    thresholds: Mapping[str, float]
    context: str

    @property
    def digest(self) -> str:
        """Digest of everything; a bare threshold and a criterion of only that are the same."""
        return digest_json([dict(self.metrics), dict(self.thresholds), self.context])


@lru_cache(maxsize=256)
def read_judging(config: str) -> Judging:
    """Return how a run with a configuration (JSON text) judges."""
    fields = json.loads(config)
    criteria = {
        name: criterion if isinstance(criterion, Mapping) else {"threshold": criterion}
        for name, criterion in (fields.get("criteria") or {}).items()
    }
    functions = fields.get("custom_metrics") or {}
    return Judging(
        {
            name: digest_json([_without_threshold(criterion), functions.get(name)])
            for name, criterion in criteria.items()
        },
        {
            name: float(criterion["threshold"])
            for name, criterion in criteria.items()
            if criterion.get("threshold") is not None
        },
        digest_json({name: field for name, field in fields.items() if name not in _JUDGED_APART}),
    )


def _without_threshold(criterion: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in criterion.items() if name != "threshold"}


def find_basis(earlier: Judging, later: Judging) -> Basis | None:
    """Return the metrics of a later run by which outcomes of an earlier one can be judged; None if there are none."""
    if earlier.context != later.context:
        return None
    basis = {
        name: later.thresholds[name]
        for name, digest in later.metrics.items()
        if earlier.metrics.get(name) == digest and name in later.thresholds
    }
    return basis or None


class StoredScore(NamedTuple):
    """Overall score of a metric of an attempt."""

    score: float | None
    threshold: float | None
    status: str


def judge_again(status: str, error_type: str, scores: Mapping[str, StoredScore], basis: Basis) -> bool | None:
    """Tell whether an attempt passes by other metrics or thresholds; None if it has no outcome by them.

    An agent's error is a failure by any metric. An attempt that lacks the score of a metric, or has a verdict that its
    score and threshold do not explain, as metrics of one's own may give, has none.
    """
    if status == Status.ERROR:
        return False if has_outcome(status, error_type) else None
    if status not in {Status.PASSED, Status.FAILED, Status.INCOMPLETE}:
        return None
    verdicts = [_judge_score(scores.get(name), threshold) for name, threshold in basis.items()]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _judge_score(stored: StoredScore | None, threshold: float) -> bool | None:
    if stored is None or stored.status not in {MetricResult.Status.PASSED, MetricResult.Status.FAILED}:
        return None
    has_passed = stored.status == MetricResult.Status.PASSED
    if stored.threshold == threshold:
        return has_passed
    if stored.score is None or stored.threshold is None or has_passed != (stored.score >= stored.threshold):
        return None
    return stored.score >= threshold


def read_sameness(run: EvalRun, data: str) -> Sameness:
    """Return what an outcome of a case (by its digest) must share with this run's to be a repetition of it."""
    return Sameness(
        code=(run.code_version or f"unknown of {run.pk}") + run.variant_hash,
        models=_digest_models(run.agent_models, run.policy, run.adk_version),
        data=data,
        judged_by=read_judging(run.config).digest,
    )


@lru_cache(maxsize=256)
def _digest_models(models: str, policy: str, adk_version: str) -> str:
    """Return a digest of what answered: models, what was replayed of them, and ADK around them."""
    return digest_json([json.loads(models), json.loads(policy), adk_version])
