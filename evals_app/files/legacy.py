"""Conversion between the older forms of evalset files and the present one.

`convert_eval_set_to_pydantic_schema` in `google/adk/evaluation/local_eval_sets_manager.py`, and for the flat
list of `*.test.json` `AgentEvaluator._get_eval_set_from_old_format`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from evals_app.files import schema
from evals_app.files.content import Content, FunctionCall, Part
from evals_app.files.pairing import pair_items


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

    def modern(self) -> schema.Invocation:
        """Return the turn in the present form."""
        uses = [FunctionCall(name=use.tool_name, args=use.tool_input) for use in self.expected_tool_use]
        responses = [
            (one.author, [Part(text=one.text)]) for one in self.expected_intermediate_agent_responses
        ]
        return schema.Invocation(
            user_content=Content(role="user", parts=[Part(text=self.query)]),
            final_response=Content(role="model", parts=[Part(text=self.reference)]),
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


def to_legacy_case(case: schema.EvalCase) -> dict[str, Any]:
    """Return a case in the old form, without data that this form cannot hold."""
    old: dict[str, Any] = {"name": case.eval_id, "data": to_legacy_turns(case)}
    if case.session_input is not None:
        start = case.session_input
        old["initial_session"] = {"app_name": start.app_name, "user_id": start.user_id, "state": start.state}
    return old


def to_legacy_turns(case: schema.EvalCase) -> list[dict[str, Any]]:
    """Return a case's turns in the old form."""
    return [_to_legacy_turn(turn) for turn in case.conversation or []]


def _to_legacy_turn(turn: schema.Invocation) -> dict[str, Any]:
    steps = turn.intermediate_data
    uses = steps.tool_uses if isinstance(steps, schema.IntermediateData) else []
    responses = steps.intermediate_responses if isinstance(steps, schema.IntermediateData) else []
    return {
        "query": _first_text(turn.user_content),
        "expected_tool_use": [{"tool_name": use.name, "tool_input": use.args} for use in uses],
        "expected_intermediate_agent_responses": [
            {"author": author, "text": parts[0].text if parts else None} for author, parts in responses
        ],
        "reference": _first_text(turn.final_response) if turn.final_response else "",
    }


def _first_text(content: Content) -> str | None:
    return content.parts[0].text if content.parts else None


REQUIRED_FIELDS = ("name", "data", "query", "tool_name", "tool_input", "author", "text")
"""Fields without which ADK cannot read the old form."""


def _without_empty(value: Any) -> Any:
    return (
        [merge_fields({}, item) if isinstance(item, dict) else item for item in value]
        if isinstance(value, list)
        else value
    )


def merge_fields(raw: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return `raw` with new values. Unknown fields stay, empty new fields are not added."""
    merged = {name: new.get(name, value) for name, value in raw.items()}
    for name, value in new.items():
        if name not in raw:
            if value not in ("", [], {}, None) or name in REQUIRED_FIELDS:
                merged[name] = _without_empty(value)
        elif isinstance(value, list) and isinstance(raw[name], list):
            old_items = raw[name]
            places = pair_items(old_items, value)
            merged[name] = [
                merge_fields(old_items[place], item)
                if place is not None and isinstance(item, dict) and isinstance(old_items[place], dict)
                else merge_fields({}, item)
                if isinstance(item, dict)
                else item
                for place, item in zip(places, value, strict=True)
            ]
        elif name == "initial_session" and isinstance(raw[name], dict):
            merged[name] = merge_fields(raw[name], value)
        elif not value and not raw[name]:
            merged[name] = raw[name]  # null, "", [] and {} are equivalent
    return merged
