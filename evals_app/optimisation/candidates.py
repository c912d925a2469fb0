"""Read model of an optimisation: its candidates as a tree with scores, its spending, and what the comparison says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from evals_app.models import Optimisation, OptimisationStep
from evals_app.optimisation import steps
from evals_app.optimisation.settings import OptimiserSettings
from evals_app.optimisation.spending import OptimisationSpending, read_spending
from evals_app.variants.variant import ORIGINAL

Kind = OptimisationStep.Kind

MAX_SHOWN_DEPTH = 4
"""Most levels by which a list of candidates is indented."""


@dataclass
class Candidate:
    """An instruction that the optimiser tried.

    Attributes:
        number: 0 for the original, then in the order in which they were tried.
        parent: the candidate whose instruction its prompt quotes; None for the original, or if it quotes none.
        evaluations: its scored batches, and the one that is being scored.
    """

    number: int
    instruction: str
    parent: Candidate | None
    is_best: bool = False
    evaluations: list[OptimisationStep] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name on pages and lines."""
        return f"candidate {self.number}" if self.number else ORIGINAL

    @property
    def depth(self) -> int:
        """Number of its ancestors."""
        return self.parent.depth + 1 if self.parent else 0

    @property
    def shown_depth(self) -> int:
        """Number of its ancestors, at most `MAX_SHOWN_DEPTH`: deeper candidates are not indented further."""
        return min(self.depth, MAX_SHOWN_DEPTH)

    @property
    def training_score(self) -> float | None:
        """Mean score of its training cases, from 0 to 1; None without one."""
        return self._mean_score("train")

    @property
    def validation_score(self) -> float | None:
        """Mean score of its validation cases during the search, from 0 to 1; None without one."""
        return self._mean_score("validation")

    def _mean_score(self, example_set: str) -> float | None:
        scores = [
            score
            for step in self.evaluations
            if step.example_set == example_set and step.scores
            for score in json.loads(step.scores).values()
        ]
        return sum(scores) / len(scores) if scores else None


@dataclass(frozen=True)
class OptimisationReport:
    """An optimisation with all that pages and lines show."""

    optimisation: Optimisation
    settings: OptimiserSettings
    candidates: Sequence[Candidate]
    spending: OptimisationSpending

    @property
    def best(self) -> Candidate | None:
        """The best candidate; None until the search has ended."""
        return next((candidate for candidate in self.candidates if candidate.is_best), None)


def read_report(optimisation: Optimisation) -> OptimisationReport:
    """Return the candidates and the spending of an optimisation."""
    candidates = list(_iter_candidates(optimisation))
    settings = OptimiserSettings.from_json(optimisation.settings)
    return OptimisationReport(optimisation, settings, order_as_tree(candidates), read_spending(optimisation))


def order_as_tree(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates with each one before its children."""
    children: dict[int | None, list[Candidate]] = {}
    for candidate in candidates:
        parent = candidate.parent
        children.setdefault(parent.number if parent else None, []).append(candidate)
    ordered: list[Candidate] = []
    waiting = children.get(None, [])[::-1]
    while waiting:
        candidate = waiting.pop()
        ordered.append(candidate)
        waiting += children.get(candidate.number, [])[::-1]
    return ordered


def _iter_candidates(optimisation: Optimisation) -> Iterator[Candidate]:
    """Yield the candidates in the order in which they were tried, the original first."""
    original = Candidate(0, optimisation.instruction, None)
    candidates = {optimisation.instruction: original}
    parent: Candidate | None = None
    for step in steps.list_steps(optimisation):
        if step.kind == Kind.ANSWER:
            parent = _find_quoted(step.prompt, candidates.values())
        else:
            candidate = candidates.setdefault(
                step.instruction, Candidate(len(candidates), step.instruction, parent)
            )
            candidate.evaluations.append(step)
    best = optimisation.best_instruction
    for instruction, candidate in candidates.items():
        candidate.is_best = instruction == best
        yield candidate


def _find_quoted(prompt: str, candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the candidate whose instruction a prompt quotes; of several the one with the longest."""
    quoted = [candidate for candidate in candidates if candidate.instruction.strip() in prompt]
    return max(quoted, key=lambda candidate: len(candidate.instruction), default=None)
