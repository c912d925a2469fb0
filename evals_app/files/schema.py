"""Evalset files as DevUI reads them: ADK's classes restated, because the web process never imports ADK.

`google/adk/evaluation/{eval_set,eval_case,conversation_scenarios,eval_rubrics,app_details}.py`. A test holds
both together over a corpus of files: what ADK accepts is accepted, what it refuses is refused. Fields that
ADK ignores are kept, so that nothing is lost when a file is written back.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from evals_app.files.content import BOTH_SPELLINGS, Content, FunctionCall, FunctionResponse, Metadata, Part
from sessions_app import scopes

CALLS, EVENTS = "intermediate-data", "invocation-events"
UNION_TAGS = frozenset({CALLS, EVENTS, "persona-id", "persona"})
"""Names that pydantic puts into an error's location and that no file holds."""


def _require_storable(text: str) -> str:
    if not scopes.is_clean(text):
        raise ValueError("holds a NUL character, which no store keeps: write it without")
    return text


StorableText = Annotated[str, AfterValidator(_require_storable)]
"""A text that a column of the store has as it is. ADK, whose store is files, takes any."""


class Strict(BaseModel):
    """ADK's `EvalBaseModel`: both spellings, unknown fields refused."""

    model_config = BOTH_SPELLINGS


class Loose(BaseModel):
    """ADK's plain models: snake case only. Unknown fields, which ADK ignores, are kept."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class RubricContent(Strict):
    """The property a rubric is about."""

    text_property: str | None = None


class Rubric(Strict):
    """A property that a judge looks for."""

    rubric_id: str
    rubric_content: RubricContent
    description: str | None = None
    type: str | None = None


class IntermediateData(Strict):
    """Expected tool calls, their results and what sub-agents say on the way."""

    tool_uses: list[FunctionCall] = []
    tool_responses: list[FunctionResponse] = []
    intermediate_responses: list[tuple[str, list[Part]]] = []


class InvocationEvent(Strict):
    """One event on the way to the answer; fields the stock editor adds are ignored by ADK and kept here."""

    model_config = ConfigDict(extra="allow")

    author: str
    content: Content | None = None
    grounding_metadata: Metadata | None = None
    usage_metadata: Metadata | None = None
    model_version: str | None = None


class InvocationEvents(Strict):
    """The events on the way to the answer."""

    invocation_events: list[InvocationEvent] = Field(default_factory=list)


class AgentDetails(Strict):
    """What is known of one agent of the app."""

    name: str
    instructions: str = ""
    tool_declarations: list[Any] = Field(default_factory=list)


class AppDetails(Strict):
    """What is known of the app when the case was recorded."""

    agent_details: dict[str, AgentDetails] = Field(default_factory=dict)


def _steps_kind(value: Any) -> str:
    """Tell which of the two forms the intermediate data has; only one of them has this field."""
    if isinstance(value, dict):
        return EVENTS if {"invocation_events", "invocationEvents"} & value.keys() else CALLS
    return EVENTS if isinstance(value, InvocationEvents) else CALLS


Steps = Annotated[
    Annotated[IntermediateData, Tag(CALLS)] | Annotated[InvocationEvents, Tag(EVENTS)],
    Discriminator(_steps_kind),
]


class Invocation(Strict):
    """One turn: what the user says, what the agent is expected to do and to answer."""

    invocation_id: str = ""
    user_content: Content
    final_response: Content | None = None
    intermediate_data: Steps | None = None
    creation_timestamp: float = 0.0
    duration: float | None = None
    model_duration: float | None = None
    tool_duration: float | None = None
    rubrics: list[Rubric] | None = None
    app_details: AppDetails | None = None


class UserBehavior(Loose):
    """How a simulated user behaves."""

    name: str
    description: str
    behavior_instructions: list[str]
    violation_rubrics: list[str]


class UserPersona(Loose):
    """Who a simulated user is."""

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
    """A conversation that a simulated user makes up as it goes."""

    starting_prompt: str
    conversation_plan: str
    user_persona: Persona | None = None


DEFAULT_USER = "test_user_id"
"""ADK's user of a case that names none (`evaluation_generator._get_or_create_eval_session`)."""


class SessionInput(Strict):
    """What the session of a case starts with. Further fields are kept."""

    model_config = ConfigDict(extra="allow")

    app_name: str
    user_id: str
    session_id: str | None = None
    state: dict[str, Any] = Field(default_factory=dict)


class EvalCase(Strict):
    """One conversation to evaluate. Further fields are kept."""

    model_config = ConfigDict(extra="allow")

    eval_id: StorableText
    conversation: list[Invocation] | None = None
    conversation_scenario: ConversationScenario | None = None
    session_input: SessionInput | None = None
    creation_timestamp: float = 0.0
    rubrics: list[Rubric] | None = None
    final_session_state: dict[str, Any] | None = Field(default_factory=dict)

    @model_validator(mode="after")
    def one_kind_of_conversation(self) -> EvalCase:
        """Hold ADK's rule that a case is either fixed or simulated."""
        if (self.conversation is None) == (self.conversation_scenario is None):
            raise ValueError("needs exactly one of conversation and conversation_scenario")
        return self


class EvalSet(Loose):
    """A file's content. ADK reads these names in snake case only."""

    eval_set_id: str
    name: StorableText | None = None
    description: StorableText | None = None
    eval_cases: list[EvalCase]
    creation_timestamp: float = 0.0
