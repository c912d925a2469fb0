"""Result files of `adk web` and `adk eval`: `.adk/eval_history/*.evalset_result.json`.

`google/adk/evaluation/{eval_result,_eval_set_results_manager_utils}.py`, read tolerantly: both spellings, older
files with JSON inside a JSON string, and the overall scores' deprecated name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from evals_app.files.content import Metadata
from evals_app.files.schema import InvocationModel
from sessions_app.store import text_input
from sessions_app.store.errors import BadInput

HISTORY = Path(".adk", "eval_history")
SUFFIX = ".evalset_result.json"


class AdkEvalStatus(IntEnum):
    """ADK's `EvalStatus`, as its files number it."""

    PASSED = 1
    FAILED = 2
    NOT_EVALUATED = 3
    INFORMATIONAL = 4


class _BothSpellings(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", defer_build=True
    )


class MetricDetails(_BothSpellings):
    """Details of a metric's result beside its score."""

    rubric_scores: list[Metadata] | None = None
    token_usage_details: Metadata | None = None
    duration_details: Metadata | None = None


class AdkMetricResult(_BothSpellings):
    """Result of a metric."""

    metric_name: str
    threshold: float | None = None
    criterion: dict[str, Any] | None = None
    score: float | None = None
    eval_status: AdkEvalStatus
    details: MetricDetails = Field(default_factory=MetricDetails)

    @model_validator(mode="after")
    def _require_score_to_pass(self) -> Self:
        """Let a metric without a score, or with NaN, not have passed."""
        if self.score is not None and not math.isfinite(self.score):
            self.score = None
        if self.score is None and self.eval_status == AdkEvalStatus.PASSED:
            self.eval_status = AdkEvalStatus.NOT_EVALUATED
        return self


class TurnResult(_BothSpellings):
    """Turn with the results of its metrics."""

    actual_invocation: InvocationModel
    expected_invocation: InvocationModel | None = None
    eval_metric_results: list[AdkMetricResult] = Field(default_factory=list)


class AdkCaseResult(_BothSpellings):
    """Result of one repetition of a case. ADK has no use for `eval_set_file` any more."""

    eval_set_file: str | None = None
    eval_set_id: str | None = None
    eval_id: str = ""
    final_eval_status: AdkEvalStatus
    eval_metric_results: list[Any] | None = Field(default_factory=list)
    overall_eval_metric_results: list[AdkMetricResult] = Field(default_factory=list)
    eval_metric_result_per_invocation: list[TurnResult] = Field(default_factory=list)
    session_id: str = ""
    session_details: dict[str, Any] | None = None
    user_id: str | None = None


class EvalsetResult(_BothSpellings):
    """Result of a run of an evalset."""

    eval_set_result_id: str
    eval_set_result_name: str | None = None
    eval_set_id: str
    eval_case_results: list[AdkCaseResult] = Field(default_factory=list)
    creation_timestamp: float = 0.0


def find_result_files(agent_folder: Path) -> list[Path]:
    """Return the result files of an agent, sorted by name. Links are left out."""
    paths = (agent_folder / HISTORY).glob(f"*{SUFFIX}")
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def read_result(path: Path) -> EvalsetResult:
    """Read a result file.

    Raises:
        BadInput: the file cannot be read, or is no result of an evalset.
    """
    try:
        document = text_input.parse_json(text_input.read_file(path))
        if isinstance(document, str):
            document = text_input.parse_json(document)
        return EvalsetResult.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        location = f"{path.name}: {where}" if where else path.name
        raise BadInput(f"{location}: {first['msg']}.", hint="It is no result that ADK wrote.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(
            f"{path.name} cannot be read: {error}.", hint="Restore the file from a copy."
        ) from error


def read_criteria(result: EvalsetResult) -> Mapping[str, Any]:
    """Return the criterion, or the threshold, of each metric by its name."""
    criteria: dict[str, Any] = {}
    for case in result.eval_case_results:
        for metric in case.overall_eval_metric_results:
            if metric.threshold is not None or metric.criterion:
                criteria.setdefault(metric.metric_name, metric.criterion or metric.threshold)
    return criteria
