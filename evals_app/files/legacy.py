"""Conversion of the older forms of evalset files to the present one.

`convert_eval_set_to_pydantic_schema` in `google/adk/evaluation/local_eval_sets_manager.py`, and for the flat
list of `*.test.json` `AgentEvaluator._get_eval_set_from_old_format`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from evals_app.files import schema
from evals_app.files.content import FunctionCall, MessageContent, MessagePart


class _Old(BaseModel):
    """Base of old models: as in ADK, unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


_nothing_is_a_list = BeforeValidator(lambda value: [] if value in ("", {}) else value)
"""As in ADK, an empty text or object is accepted as an empty list."""


class OldToolUse(_Old):
    """An expected tool call."""

    tool_name: str | None
    tool_input: dict[str, Any] | None


class OldResponse(_Old):
    """Expected intermediate response of an agent."""

    author: str
    text: str | None


class OldTurn(_Old):
    """Turn in the old form."""

    query: str | None
    reference: str | None = ""
    expected_tool_use: Annotated[list[OldToolUse], _nothing_is_a_list] = []
    expected_intermediate_agent_responses: Annotated[list[OldResponse], _nothing_is_a_list] = []

    def modern(self) -> schema.InvocationModel:
        """Return the turn in the present form."""
        uses = [FunctionCall(name=use.tool_name, args=use.tool_input) for use in self.expected_tool_use]
        responses = [
            (response.author, [MessagePart(text=response.text)])
            for response in self.expected_intermediate_agent_responses
        ]
        return schema.InvocationModel(
            user_content=MessageContent(role="user", parts=[MessagePart(text=self.query)]),
            final_response=MessageContent(role="model", parts=[MessagePart(text=self.reference)]),
            intermediate_data=schema.IntermediateData(tool_uses=uses, intermediate_responses=responses),
        )


class OldSession(_Old):
    """Initial session of an old case."""

    app_name: str = ""
    user_id: str = ""
    state: dict[str, Any] = Field(default_factory=dict)


def _none_if_empty(value: Any) -> Any:
    if value is None:
        raise ValueError("must be an object; leave it out when there is nothing to start with")
    return value or None


class OldCase(_Old):
    """Case in the old form."""

    name: schema.StorableText
    data: Annotated[list[OldTurn], _nothing_is_a_list]
    initial_session: Annotated[OldSession | None, BeforeValidator(_none_if_empty)] = None

    def modern(self) -> schema.EvalCase:
        """Return the case in the present form."""
        start = self.initial_session
        return schema.EvalCase(
            eval_id=self.name,
            conversation=[turn.modern() for turn in self.data],
            session_input=schema.SessionInput(**start.model_dump()) if start else None,
        )


def is_flat(document: list[Any]) -> bool:
    """Tell whether the list has turns of a single case instead of cases."""
    return bool(document) and all(isinstance(item, dict) and "query" in item for item in document)
