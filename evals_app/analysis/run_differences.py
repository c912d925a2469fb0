"""Differences of two runs besides their outcomes, as people name them. Read-only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from evals_app.analysis.comparability import digest_json, read_judging
from evals_app.analysis.comparison import RunDifference
from evals_app.models import EvalRun
from evals_app.variants.variant import ORIGINAL, read_run_variant
from sessions_app import prices
from sessions_app.store.short_texts import join_names

Fact = tuple[str, str]
"""Subject, and its value as text."""


def read_differences(baseline_run: EvalRun, run: EvalRun) -> list[RunDifference]:
    """Return in what two runs differ, what concerns the agent first. What is unknown of one of them is left out."""
    return [
        *_agent_differences(baseline_run, run),
        *_compare_facts(_other_facts(baseline_run), _other_facts(run), is_of_agent=False),
    ]


def _agent_differences(baseline_run: EvalRun, run: EvalRun) -> Iterator[RunDifference]:
    yield from _compare_facts(_agent_facts(baseline_run), _agent_facts(run), is_of_agent=True)
    for subject, column in (("model version", "model_versions"), ("packages", "packages")):
        before, after = (json.loads(getattr(side, column)) for side in (baseline_run, run))
        if names := _find_changed_names(before, after):
            yield RunDifference(
                subject, _name_values(names, before), _name_values(names, after), is_of_agent=True
            )
    if names := _find_changed_names(json.loads(baseline_run.environment), json.loads(run.environment)):
        yield RunDifference("environment", join_names(names), "changed", is_of_agent=True)


def _compare_facts(
    before: Sequence[Fact], after: Sequence[Fact], *, is_of_agent: bool
) -> Iterator[RunDifference]:
    for (subject, old_text), (_, new_text) in zip(before, after, strict=True):
        if old_text != new_text:
            yield RunDifference(subject, old_text, new_text, is_of_agent)


def _find_changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names that both sides have, with other values."""
    return sorted(name for name in before if name in after and before[name] != after[name])


def _name_values(names: Sequence[str], values: Mapping[str, object]) -> str:
    return join_names([f"{name} {values[name]}" for name in names])


def read_currency(run: EvalRun) -> str:
    """Return the currency of a run's costs."""
    return prices.prices_from_json(json.loads(run.prices)).currency


def _name_prices(run: EvalRun) -> str:
    """Return the currency of a run's prices with a digest of them, wherever their file was, and the list's date."""
    table = prices.prices_from_json(json.loads(run.prices))
    entries = [price.as_json() for price in table.prices]
    names = [f"{table.currency} {digest_json(entries)[:6]}"] if entries else []
    listed = [f"list prices of {table.list_date}"] if table.list_date else []
    return ", ".join([*names, *listed]) or "nothing"


def name_variant(run: EvalRun) -> str:
    """Return the name of a run's variant with its hash, or that it ran the original."""
    variant = read_run_variant(run)
    return f"{variant.name} {run.variant_hash[:6]}" if variant else ORIGINAL


def _shorten_revision(revision: str) -> str:
    """Return a commit in short, with `+` and a digest if its files had changes."""
    commit, plus, changes = revision.partition("+")
    return f"{commit[:10]}{plus}{changes}"


def _agent_facts(run: EvalRun) -> Sequence[Fact]:
    models = json.loads(run.agent_models)
    policy = json.loads(run.policy)
    return [
        ("variant", name_variant(run)),
        ("code", run.code_version[:10] or "unknown"),
        ("commit", _shorten_revision(run.git_revision) or "unknown"),
        ("models", ", ".join(sorted({str(model) for model in models.values()})) or "unknown"),
        ("google-adk", run.adk_version or "unknown"),
        ("replayed", ", ".join(f"{name}: {mode}" for name, mode in policy.items()) or "nothing"),
    ]


def _other_facts(run: EvalRun) -> Sequence[Fact]:
    judged_by = read_judging(run.config).digest[:6]
    return [
        ("evalset", run.version.digest[:10]),
        ("judged by", f"{run.config_source} {judged_by}".strip()),
        ("repetitions", str(run.num_runs)),
        ("prices", _name_prices(run)),
    ]
