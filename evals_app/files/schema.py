"""Pydantic models of evalset files. They restate ADK's classes, because the web process never imports ADK.

`google/adk/evaluation/{eval_set,eval_case,conversation_scenarios,eval_rubrics,app_details}.py`. A test holds
both together over a corpus of files: what ADK accepts is accepted, what it refuses is refused. Fields that
ADK ignores are kept, so that nothing is lost when a file is written back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from evals_app.files.content import (
    BOTH_SPELLINGS,
    FunctionCall,
    FunctionResponse,
    MessageContent,
    MessagePart,
    Metadata,
)
from evals_app.files.fixtures import Fixtures
from evals_app.files.tags import require_distinct_tags, require_tag
from sessions_app.store import scopes

CALLS, EVENTS = "intermediate-data", "invocation-events"
UNION_TAGS = frozenset({CALLS, EVENTS, "persona-id", "persona"})
"""Names in the locations of pydantic's errors that are not in the file."""


def _require_storable(text: str) -> str:
    if not scopes.is_clean(text):
        raise ValueError("holds a NUL character, which no store keeps: write it without")
    return text


StorableText = Annotated[str, AfterValidator(_require_storable)]
"""Text that a database column can store. ADK stores files and accepts any text."""


class Strict(BaseModel):
    """ADK's `EvalBaseModel`: snake case or camel case, no unknown fields."""

    model_config = BOTH_SPELLINGS


class Loose(BaseModel):
    """ADK's plain models: snake case only. Unknown fields, which ADK ignores, are kept."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class RubricContent(Strict):
    """Property of a rubric."""

    text_property: str | None = None


class Rubric(Strict):
    """Property that a judge looks for."""

    rubric_id: str
    rubric_content: RubricContent
    description: str | None = None
    type: str | None = None


class IntermediateData(Strict):
    """Expected tool calls, their results and intermediate responses of sub-agents."""

    tool_uses: list[FunctionCall] = []
    tool_responses: list[FunctionResponse] = []
    intermediate_responses: list[tuple[str, list[MessagePart]]] = []


class InvocationEvent(Strict):
    """Event before the final response. Fields that ADK's editor adds are kept; ADK ignores them."""

    model_config = ConfigDict(extra="allow")

    author: str
    content: MessageContent | None = None
    grounding_metadata: Metadata | None = None
    usage_metadata: Metadata | None = None
    model_version: str | None = None


class InvocationEvents(Strict):
    """Events before the final response."""

    invocation_events: list[InvocationEvent] = Field(default_factory=list)


class AgentDetails(Strict):
    """Details of one agent of the app."""

    name: str
    instructions: str = ""
    tool_declarations: list[Any] = Field(default_factory=list)


class AppDetails(Strict):
    """Details of the app at the time of recording."""

    agent_details: dict[str, AgentDetails] = Field(default_factory=dict)


def _steps_kind(value: Any) -> str:
    """Return which of the two forms the intermediate data has."""
    if isinstance(value, dict):
        return EVENTS if {"invocation_events", "invocationEvents"} & value.keys() else CALLS
    return EVENTS if isinstance(value, InvocationEvents) else CALLS


Steps = Annotated[
    Annotated[IntermediateData, Tag(CALLS)] | Annotated[InvocationEvents, Tag(EVENTS)],
    Discriminator(_steps_kind),
]


class InvocationModel(Strict):
    """Turn: the user's message, the expected steps and the expected response."""

    invocation_id: str = ""
    user_content: MessageContent
    final_response: MessageContent | None = None
    intermediate_data: Steps | None = None
    creation_timestamp: float = 0.0
    duration: float | None = None
    model_duration: float | None = None
    tool_duration: float | None = None
    rubrics: list[Rubric] | None = None
    app_details: AppDetails | None = None


class UserBehavior(Loose):
    """Behavior of a simulated user."""

    name: str
    description: str
    behavior_instructions: list[str]
    violation_rubrics: list[str]


class UserPersona(Loose):
    """Persona of a simulated user."""

    id: str
    description: str
    behaviors: list[UserBehavior]


def _persona_kind(value: Any) -> str:
    return "persona-id" if isinstance(value, str) else "persona"


Persona = Annotated[
    Annotated[Literal["EXPERT", "NOVICE", "EVALUATOR"], Tag("persona-id")]
    | Annotated[UserPersona, Tag("persona")],
    Discriminator(_persona_kind),
]


class ConversationScenario(Strict):
    """Conversation that a simulated user improvises."""

    starting_prompt: str
    conversation_plan: str
    user_persona: Persona | None = None


DEFAULT_USER = "test_user_id"
"""ADK's user of a case that names none (`evaluation_generator._get_or_create_eval_session`)."""


class SessionInput(Strict):
    """Initial session of a case. Unknown fields are kept."""

    model_config = ConfigDict(extra="allow")

    app_name: str
    user_id: str
    session_id: str | None = None
    state: dict[str, Any] = Field(default_factory=dict)


Tags = Annotated[list[Annotated[str, AfterValidator(require_tag)]], AfterValidator(require_distinct_tags)]


class EvalCase(Strict):
    """Conversation to evaluate. Unknown fields are kept. ADK ignores those that begin with `devui_`."""

    model_config = ConfigDict(extra="allow")

    eval_id: StorableText
    conversation: list[InvocationModel] | None = None
    conversation_scenario: ConversationScenario | None = None
    session_input: SessionInput | None = None
    creation_timestamp: float = 0.0
    rubrics: list[Rubric] | None = None
    final_session_state: dict[str, Any] | None = Field(default_factory=dict)
    devui_tags: Tags | None = None
    devui_fixtures: Fixtures | None = None

    @model_validator(mode="after")
    def require_one_conversation(self) -> EvalCase:
        """Check that the case is either fixed or simulated, as ADK does."""
        if (self.conversation is None) == (self.conversation_scenario is None):
            raise ValueError("needs exactly one of conversation and conversation_scenario")
        return self

    @model_validator(mode="after")
    def distinct_rubrics(self) -> EvalCase:
        """Check that each turn has distinct rubrics, with those of the case: ADK refuses others when it judges."""
        of_case = [rubric.rubric_id for rubric in self.rubrics or ()]
        _require_distinct_rubrics(of_case, "the case has")
        for number, turn in enumerate(self.conversation or (), start=1):
            if turn.rubrics:
                ids = [*of_case, *(rubric.rubric_id for rubric in turn.rubrics)]
                _require_distinct_rubrics(ids, f"turn {number} has, with those of the case,")
        return self


def _require_distinct_rubrics(ids: Sequence[str], subject: str) -> None:
    if repeated := [rubric_id for rubric_id, count in Counter(ids).items() if count > 1]:
        raise ValueError(f"{subject} two rubrics of the id {repeated[0]!r}: rename one")


class EvalSetModel(Loose):
    """Content of a file. ADK accepts these names only in snake case."""

    eval_set_id: str
    name: StorableText | None = None
    description: StorableText | None = None
    eval_cases: list[EvalCase]
    creation_timestamp: float = 0.0
    devui_fixtures: Fixtures | None = None
