"""Settings of an optimisation: the optimiser, its model, the divided cases, and the bounds that follow. Pure."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Self

from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import join_names

SIMPLE, GEPA = "simple", "gepa"
OPTIMISERS = {SIMPLE: "SimplePromptOptimizer", GEPA: "GEPARootAgentPromptOptimizer"}
"""Optimisers by name → their class in `google.adk.optimization`."""

DEFAULT_PROPOSALS = 10
"""As in ADK (`SimplePromptOptimizerConfig.num_iterations`)."""
DEFAULT_BATCH_SIZE = 5
"""As in ADK (`SimplePromptOptimizerConfig.batch_size`)."""
DEFAULT_REPETITIONS = 5
"""Repetitions of each validation case with the original and with the best candidate: enough to decide one case."""
DEFAULT_SEED = 1
MAX_PROPOSALS = 100
MAX_REPETITIONS = 100
MAX_SEED = 2**31 - 1
MAX_ATTEMPTS = 20_000
MAX_MODEL_CHARACTERS = 200
MAX_LISTED = 5
"""Cases that an error names."""


@dataclass(frozen=True)
class OptimiserSettings:
    """Settings of an optimisation.

    Attributes:
        optimiser: a name of `OPTIMISERS`.
        model: name of the model that writes the candidates.
        training: ids of the cases by which candidates are chosen, in the order of the file.
        validation: ids of the cases of the comparison; none of them is a training case. GEPA scores on them, too.
        proposals: rewrites that `simple` asks its model for; those that GEPA's budget of scores is made for.
        batch_size: training cases that score a candidate.
        repetitions: of each validation case in the comparison of the best candidate with the original.
        seed: of the random choice of batches.
    """

    optimiser: str
    model: str
    training: tuple[str, ...]
    validation: tuple[str, ...]
    proposals: int = DEFAULT_PROPOSALS
    batch_size: int = DEFAULT_BATCH_SIZE
    repetitions: int = DEFAULT_REPETITIONS
    seed: int = DEFAULT_SEED

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the settings of a column of `Optimisation`."""
        stored = json.loads(text)
        return cls(
            **{**stored, "training": tuple(stored["training"]), "validation": tuple(stored["validation"])}
        )

    def as_json(self) -> str:
        """Return the settings as JSON text."""
        return json.dumps(asdict(self))

    @property
    def batch(self) -> int:
        """Training cases of a batch: there may be fewer than its size."""
        return min(self.batch_size, len(self.training))

    @property
    def max_metric_calls(self) -> int:
        """Scores of cases after which GEPA stops: those of the original, and of each proposal at most."""
        return len(self.validation) + self.proposals * (2 * self.batch + len(self.validation))

    @property
    def max_model_calls(self) -> int:
        """Most calls of the optimiser's model. GEPA scores a batch before each call."""
        if self.optimiser == GEPA:
            return math.ceil(self.max_metric_calls / self.batch)
        return self.proposals

    @property
    def max_search_attempts(self) -> int:
        """Most attempts of the search. GEPA finishes an iteration that it has begun."""
        if self.optimiser == GEPA:
            return self.max_metric_calls + 2 * self.batch + len(self.validation)
        return (self.proposals + 1) * self.batch + len(self.validation)

    @property
    def max_attempts(self) -> int:
        """Most attempts of the search and of the comparison of the best candidate with the original."""
        return self.max_search_attempts + 2 * self.repetitions * len(self.validation)

    @property
    def bounds_text(self) -> str:
        """The most attempts and model calls of the optimisation, in words."""
        attempts = count_nouns(self.max_attempts, "attempt")
        return f"at most {attempts} and {count_nouns(self.max_model_calls, 'call')} of the optimiser's model"

    def check(self) -> None:
        """Require settings that can be carried out.

        Raises:
            BadInput: a name is unknown, a number is out of range, or a set of cases is empty or overlaps the other.
        """
        if self.optimiser not in OPTIMISERS:
            raise BadInput(
                f"There is no optimiser {self.optimiser!r}.", hint=f"Optimisers: {', '.join(OPTIMISERS)}."
            )
        if not self.model.strip() or len(self.model) > MAX_MODEL_CHARACTERS or not self.model.isprintable():
            raise BadInput(
                "The optimiser has no model: it is the model that writes better instructions.",
                hint="Name one, such as gemini-2.5-flash.",
            )
        _check_number("Proposals", self.proposals, MAX_PROPOSALS)
        _check_number("The batch size", self.batch_size, MAX_ATTEMPTS)
        _check_number("Repetitions of the comparison", self.repetitions, MAX_REPETITIONS)
        _check_number("The seed", self.seed, MAX_SEED)
        self._check_cases()
        if self.max_attempts > MAX_ATTEMPTS:
            raise BadInput(
                f"The optimisation may need {self.max_attempts:,} attempts, more than {MAX_ATTEMPTS:,}.",
                hint="Choose fewer proposals, repetitions or cases, or a smaller batch.",
            )

    def _check_cases(self) -> None:
        for name, case_ids in (("training", self.training), ("validation", self.validation)):
            if not case_ids:
                raise BadInput(
                    f"There is no {name} case: an instruction is chosen on some cases and judged on others.",
                    hint=f"Choose at least one case for {name}.",
                )
        if shared := sorted(set(self.training) & set(self.validation)):
            raise BadInput(
                f"The case {shared[0]!r} is for training and for validation: its gain would prove nothing.",
                hint="Choose one of them.",
            )


def divide_cases(
    case_ids: Sequence[str],
    *,
    training: Collection[str] = (),
    validation: Collection[str] = (),
    seed: int = DEFAULT_SEED,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide the cases of an evalset into training and validation, both in the order of the file.

    If only one part is given, the other one has the remaining cases. If neither is, half of the cases, chosen at
    random by the seed, are for validation.

    Raises:
        BadInput: there are too few cases, two have the same id, or the evalset does not have a given one.
    """
    if len(case_ids) < 2:
        raise BadInput(
            f"{count_nouns(len(case_ids), 'case')} cannot be divided into training and validation: both need one.",
            hint="Add cases to the evalset.",
        )
    if repeated_ids := [case_id for case_id, count in Counter(case_ids).items() if count > 1]:
        raise BadInput(
            f"Two cases have the id {repeated_ids[0]!r}, so they cannot be divided.",
            hint="Give each an id of its own.",
        )
    if unknown := [case_id for case_id in (*training, *validation) if case_id not in case_ids]:
        raise BadInput(
            f"The evalset has no case {unknown[0]!r}.", hint=f"Its cases: {join_names(case_ids, MAX_LISTED)}."
        )
    if not training and not validation:
        validation = random.Random(seed).sample(list(case_ids), len(case_ids) // 2)  # noqa: S311 - no secret
    training = training or set(case_ids) - set(validation)
    validation = validation or set(case_ids) - set(training)
    return tuple(filter(set(training).__contains__, case_ids)), tuple(
        filter(set(validation).__contains__, case_ids)
    )


def _check_number(subject: str, number: int, maximum: int) -> None:
    if not 1 <= number <= maximum:
        raise BadInput(
            f"{subject} must be 1 to {maximum:,}, not {number}.", hint="Give a number in that range."
        )


def count_nouns(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 case` or `2 cases`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
