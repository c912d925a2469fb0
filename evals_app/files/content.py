"""Messages in evalset files: google.genai's `MessageContent` and its parts, without importing ADK.

Field names and strictness follow `google/genai/types.py`; a test compares both. Rare parts are not validated. The
expected states of a case are read here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SerializationInfo,
)
from pydantic.alias_generators import to_camel, to_snake

from evals_app.files.argument_matchers import require_expected_arguments

JsonObject = dict[str, Any]


def _rename_fields(spell: Callable[[str], str], value: Any) -> Any:
    """Return a value with all field names converted by `spell`."""
    if isinstance(value, dict):
        return {
            spell(name) if isinstance(name, str) else name: _rename_fields(spell, inner)
            for name, inner in value.items()
        }
    return [_rename_fields(spell, item) for item in value] if isinstance(value, list) else value


def _serialize_names(value: JsonObject, info: SerializationInfo) -> JsonObject:
    return _rename_fields(to_camel, value) if info.by_alias else value


Metadata = Annotated[
    JsonObject,
    BeforeValidator(partial(_rename_fields, to_snake)),
    PlainSerializer(_serialize_names, return_type=JsonObject),
]
"""Metadata of a response, such as token counts, in snake case or camel case."""


BOTH_SPELLINGS = ConfigDict(
    defer_build=True,  # a page that reads no file needs none of these models
    alias_generator=to_camel,
    populate_by_name=True,
    extra="forbid",
    ser_json_bytes="base64",
    val_json_bytes="base64",
)
"""Config of models of google.genai and of ADK's evals: camel case or snake case, no unknown fields."""


class GenaiModel(BaseModel):
    """Base of google.genai's models."""

    model_config = BOTH_SPELLINGS


class FunctionCall(GenaiModel):
    """Tool call. Expected arguments can have matchers in place of values."""

    id: str | None = None
    args: Annotated[JsonObject, AfterValidator(require_expected_arguments)] | None = None
    name: str | None = None
    partial_args: list[JsonObject] | None = None
    will_continue: bool | None = None


class FunctionResponse(GenaiModel):
    """Result of a tool call."""

    will_continue: bool | None = None
    scheduling: str | None = None
    parts: list[JsonObject] | None = None
    id: str | None = None
    name: str | None = None
    response: JsonObject | None = None


class Blob(GenaiModel):
    """Inline file in base64."""

    data: bytes | None = None
    display_name: str | None = None
    mime_type: str | None = None


class FileData(GenaiModel):
    """File referenced by URI."""

    display_name: str | None = None
    file_uri: str | None = None
    mime_type: str | None = None


class MessagePart(GenaiModel):
    """Part of a message."""

    media_resolution: JsonObject | None = None
    code_execution_result: JsonObject | None = None
    executable_code: JsonObject | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: Blob | None = None
    text: str | None = None
    thought: bool | None = None
    thought_signature: bytes | None = None
    video_metadata: JsonObject | None = None
    tool_call: JsonObject | None = None
    tool_response: JsonObject | None = None
    part_metadata: JsonObject | None = None
    audio_transcription: JsonObject | None = None
    media_processing: Any = None
    speech_metadata: JsonObject | None = None


class MessageContent(GenaiModel):
    """Message with its parts and role."""

    parts: list[MessagePart] | None = None
    role: str | None = None


FINAL_STATE, TURN_STATES = "final_session_state", "devui_turn_states"
"""Fields of a case for the expected state at its end (ADK's) and after each turn (DevUI's; ADK ignores it)."""


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """Expected values by key with prefix, after a turn (from 0) or at the end (None)."""

    turn: int | None
    values: JsonObject


def expected_states(case: Mapping[str, Any]) -> list[ExpectedState]:
    """Return the expected states of a case (JSON, snake case): after its turns in order, then at its end.

    Empty states and values that are no objects are left out.
    """
    turns = case.get(TURN_STATES)
    states = [*enumerate(turns if isinstance(turns, list) else []), (None, case.get(FINAL_STATE))]
    return [ExpectedState(turn, values) for turn, values in states if isinstance(values, dict) and values]
