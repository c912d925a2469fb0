"""Settings of the gate in `test_config.json` under `devui_gate`, which ADK ignores: names, defaults and rules."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

GATE = "devui_gate"
"""Field of a configuration for the gate."""

Share = Annotated[float, Field(ge=0, le=1)]
Maximum = Annotated[float, Field(ge=0)]


class GateConfig(BaseModel):
    """Settings of the gate. A limit of None is no limit; costs are in the currency of the run's prices.

    The descriptions are also the help of the options of the command line, which have the same names.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)

    min_compared: Share = Field(
        default=0.8, description="least share of the cases that must have a comparable earlier outcome"
    )
    max_incomplete: Share = Field(
        default=0.2, description="largest share of the attempts that may be incomplete"
    )
    score_tolerance: dict[str, Maximum] = Field(
        default_factory=dict, description="largest fall of a metric's mean score that is accepted"
    )
    max_cost: Maximum | None = Field(default=None, description="highest cost of the run")
    max_tokens: Maximum | None = Field(default=None, description="most tokens of the run")
    max_latency_p50: Maximum | None = Field(
        default=None, description="highest median latency of an attempt, in seconds"
    )
    max_latency_p95: Maximum | None = Field(
        default=None, description="highest 95th percentile of the latency of an attempt, in seconds"
    )
    max_case_cost: Maximum | None = Field(default=None, description="highest mean cost of a case's attempts")
    max_case_tokens: Maximum | None = Field(
        default=None, description="most tokens of a case's attempts, on average"
    )
    max_case_latency: Maximum | None = Field(
        default=None, description="highest mean latency of a case's attempts, in seconds"
    )

    @property
    def has_limits(self) -> bool:
        """Tell whether cost, tokens or latency are limited."""
        return any(getattr(self, name) is not None for name in LIMITS)


LIMITS = tuple(name for name, field in GateConfig.model_fields.items() if field.default is None)
"""Names of the limits of cost, tokens and latency."""


def option_name(setting: str) -> str:
    """Return the option of the command line for a setting."""
    return f"--{setting.replace('_', '-')}"
