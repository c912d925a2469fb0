"""Fixtures of tools in evalset files: ADK's `ToolSimulationConfig`, with DevUI's matchers and numbers of calls.

The models restate those of `google/adk/tools/environment_simulation/environment_simulation_config.py`, because the web
process never imports ADK; a test holds both together. They are stricter: ADK ignores misspelled fields. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from evals_app.files.argument_matchers import require_matchers

Json = Mapping[str, Any]

FIXTURES = "devui_fixtures"
"""Field of an evalset and of a case for its fixtures, which ADK ignores."""

EVALSET, CASE = "evalset", "case"
"""Sources of fixtures. Fixtures of a case replace those of the evalset for the same tool."""

MATCH_ARGS, TIMES = "devui_match_args", "devui_times"
"""Fields of an injection that ADK does not have: matchers by argument, and the number of calls that it answers."""

MOCK = 0
"""Number of the fixture in which a model mocks the tool. Injections count from 1."""

MOCKED = 1
"""Number of ADK's strategy in which a model mocks a tool."""

MOCK_STRATEGIES = {"MOCK_STRATEGY_UNSPECIFIED": 0, "MOCK_STRATEGY_TOOL_SPEC": MOCKED}
"""ADK's strategies by name; its files hold the numbers. ADK has not implemented its third one."""

MAX_LATENCY_S = 120


def is_mock_strategy(strategy: str | int) -> bool:
    """Tell whether a strategy, by its name or number, lets a model mock the tool."""
    return bool(MOCK_STRATEGIES.get(strategy, 0) if isinstance(strategy, str) else strategy)


class FixtureModel(BaseModel):
    """Base of the models. Names are those of ADK, in snake case only."""

    model_config = ConfigDict(defer_build=True, extra="forbid", strict=True)


class InjectedError(FixtureModel):
    """Error as which a tool answers."""

    injected_http_error_code: int
    error_message: str


class Injection(FixtureModel):
    """Result or error with which a tool answers the calls that match."""

    injection_probability: float = Field(default=1.0, ge=0, le=1)
    match_args: dict[str, Any] | None = None
    injected_latency_seconds: float = Field(default=0.0, ge=0, le=MAX_LATENCY_S)
    random_seed: int | None = None
    injected_error: InjectedError | None = None
    injected_response: dict[str, Any] | None = None
    devui_match_args: dict[str, Annotated[dict[str, Any], AfterValidator(require_matchers)]] | None = None
    devui_times: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def require_one_answer(self) -> Injection:
        """Check that there is either an error or a response, as ADK does: an empty response is none.

        Raises:
            ValueError: there are both, or neither.
        """
        if bool(self.injected_error) == bool(self.injected_response):
            raise ValueError("needs either injected_error or a non-empty injected_response")
        return self


class ToolFixtures(FixtureModel):
    """Injections, tried in order, and optionally a mock that answers the remaining calls."""

    tool_name: str = Field(min_length=1)
    injection_configs: list[Injection] = Field(default_factory=list)
    mock_strategy_type: Literal["MOCK_STRATEGY_UNSPECIFIED", "MOCK_STRATEGY_TOOL_SPEC", 0, 1] = 0

    @model_validator(mode="after")
    def require_injection_or_mock(self) -> ToolFixtures:
        """Check that something can answer, as ADK does.

        Raises:
            ValueError: there is neither an injection nor a mock.
        """
        if not self.injection_configs and not is_mock_strategy(self.mock_strategy_type):
            raise ValueError("needs injection_configs, or the mock_strategy_type MOCK_STRATEGY_TOOL_SPEC")
        return self


def require_distinct_tools(fixtures: Sequence[ToolFixtures]) -> Sequence[ToolFixtures]:
    """Return the fixtures of an evalset or of a case if each tool has one object.

    Raises:
        ValueError: a tool has several.
    """
    counts = Counter(tool_fixtures.tool_name for tool_fixtures in fixtures)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise ValueError(
            f"has several objects for the tool {repeated[0]!r}: combine their injection_configs in one"
        )
    return fixtures


Fixtures = Annotated[list[ToolFixtures], AfterValidator(require_distinct_tools)]


@dataclass(frozen=True)
class SourcedToolFixtures:
    """Fixtures of a tool (JSON of `ToolFixtures`) with the place where they are written."""

    source: str
    data: Json

    @property
    def tool(self) -> str:
        """Name of the tool."""
        return str(self.data["tool_name"])

    @property
    def injections(self) -> Sequence[Json]:
        """The injections as JSON."""
        return self.data.get("injection_configs") or []

    @property
    def is_mocked(self) -> bool:
        """Tell whether a model answers the calls that no injection fits."""
        return is_mock_strategy(self.data.get("mock_strategy_type", 0))

    @property
    def numbers(self) -> list[int]:
        """Numbers of its fixtures: injections from 1, then `MOCK`."""
        return [*range(1, len(self.injections) + 1), *([MOCK] if self.is_mocked else [])]


def merge_fixtures(
    evalset_fixtures: Iterable[Json], case_fixtures: Iterable[Json]
) -> list[SourcedToolFixtures]:
    """Return the fixtures of a case: its own, and those of the evalset for other tools."""
    own_fixtures = [SourcedToolFixtures(CASE, data) for data in case_fixtures]
    own_tools = {tool_fixtures.tool for tool_fixtures in own_fixtures}
    shared_fixtures = (SourcedToolFixtures(EVALSET, data) for data in evalset_fixtures)
    return [
        *own_fixtures,
        *(tool_fixtures for tool_fixtures in shared_fixtures if tool_fixtures.tool not in own_tools),
    ]


def read_case_fixtures(content: Json) -> list[list[SourcedToolFixtures]]:
    """Return the fixtures of each case of an evalset (JSON, snake case), in file order."""
    evalset_fixtures = content.get(FIXTURES) or []
    return [merge_fixtures(evalset_fixtures, case.get(FIXTURES) or []) for case in content["eval_cases"]]
