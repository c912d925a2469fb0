"""Columns of a playground run: as drafts, which a person edits, and as requests, which are sent. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from evals_app.playground.config_form import Inputs, parse_inputs, split_config
from evals_app.runs.replay.request_diff import RUN_SETTINGS
from sessions_app.presentation.schema_form import parse_json_input
from sessions_app.store.short_texts import join_names, truncate
from sessions_app.traces.model_calls import instruction_text, tool_names

Json = dict[str, Any]

MAX_COLUMNS = 4
MAX_REPETITIONS = 10

MAX_MODEL = 300
"""Characters of the name of a model. ADK matches names with expressions that take long for long ones."""

MAX_INSTRUCTION = 200_000
"""Characters of a system instruction. The recorder stores as many."""

MAX_REQUEST = 1_000_000
"""Characters of the JSON of a column."""

MAX_EDITED_CONTENTS = 30
"""The last contents, which are edited one by one; the earlier ones are edited together as JSON."""

MAX_TITLE = 80
"""Characters of the title of a content or a part."""


class ColumnProblem(ValueError):
    """An input of a column is invalid. The message names the input, the rule and what to do."""


@dataclass(frozen=True, slots=True)
class RequestColumn:
    """A request as it is sent, and how often. Contents, tool declarations and config have ADK's JSON form."""

    model: str
    system_instruction: str
    contents: list[Json]
    tools: list[Json]
    config: Json
    repetitions: int = 1

    def request_json(self) -> Json:
        """Return the request in the form of `traces.model_calls.request_json`."""
        values = dump_column(self)
        del values["repetitions"]
        return values


@dataclass(frozen=True, slots=True)
class ContentDraft:
    """A content in the form. `text` is its only text, or if `is_json` the JSON of its parts."""

    role: str = "user"
    text: str = ""
    is_json: bool = False

    @property
    def title(self) -> str:
        """The start of the text, or a title of each part: calls and results by the names of their tools."""
        if not self.is_json:
            return truncate(self.text, MAX_TITLE)
        try:
            return join_names([_part_title(part) for part in json.loads(self.text)])
        except (ValueError, TypeError, AttributeError, RecursionError):
            return "invalid parts"


@dataclass(frozen=True, slots=True)
class ToolDraft:
    """A tool in the form: whether it is offered to the model, and its declaration.

    Attributes:
        declaration: its JSON without the description.
        description: None if it has none because the model brings the tool with it, such as Google Search.
    """

    declaration: str
    description: str | None = None
    is_offered: bool = True

    @property
    def name(self) -> str:
        """Name of the tool; empty if its JSON is invalid."""
        try:
            return next(iter(tool_names([json.loads(self.declaration)])))
        except (ValueError, TypeError, AttributeError, RecursionError):
            return ""


@dataclass(frozen=True, slots=True)
class ColumnDraft:
    """A column in the form, as it was typed.

    Attributes:
        earlier_contents: JSON list of the contents before `contents`.
        config_inputs: content of the fields of the generation config.
        config: JSON object of the values of the config that no field can show.
    """

    model: str = ""
    instruction: str = ""
    earlier_contents: str = ""
    contents: list[ContentDraft] = field(default_factory=list)
    tools: list[ToolDraft] = field(default_factory=list)
    config_inputs: Inputs = field(default_factory=dict)
    config: str = ""
    repetitions: str = "1"


def draft_request(
    request: Mapping[str, Any], config_schema: Mapping[str, Any], repetitions: int = 1
) -> ColumnDraft:
    """Return the draft of a request.

    Args:
        request: as `traces.model_calls.request_json` returns it.
        config_schema: JSON schema of the generation config; empty if it is unknown.
        repetitions: of the column.
    """
    contents = request.get("contents") or []
    earlier = contents[:-MAX_EDITED_CONTENTS]
    config = {
        name: value for name, value in (request.get("config") or {}).items() if name not in RUN_SETTINGS
    }
    inputs, other_settings = split_config(config_schema, config)
    return ColumnDraft(
        model=str(request.get("model") or ""),
        instruction=instruction_text(request.get("system_instruction")).encode(errors="replace").decode(),
        earlier_contents=_as_json(earlier) if earlier else "",
        contents=[_draft_content(content) for content in contents[-MAX_EDITED_CONTENTS:]],
        tools=[_draft_tool(tool) for tool in request.get("tools") or []],
        config_inputs=inputs,
        config=_as_json(other_settings) if other_settings or not config_schema else "",
        repetitions=str(repetitions),
    )


def draft_column(
    column: RequestColumn, recorded: Mapping[str, Any], config_schema: Mapping[str, Any]
) -> ColumnDraft:
    """Return the draft of a column of a run. Recorded tools that it left out follow its own, not ticked.

    Args:
        recorded: the recorded request, as `traces.model_calls.request_json` returns it.
        config_schema: see `draft_request`.
    """
    draft = draft_request(column.request_json(), config_schema, column.repetitions)
    offered = set(tool_names(column.tools))
    tools = recorded.get("tools") or []
    left_out = [tool for name, tool in zip(tool_names(tools), tools, strict=True) if name not in offered]
    return replace(draft, tools=[*draft.tools, *(_draft_tool(tool, is_offered=False) for tool in left_out)])


def parse_draft(draft: ColumnDraft, config_schema: Mapping[str, Any]) -> RequestColumn:
    """Return the request of a draft. ADK's own rules are checked where the request is sent.

    Raises:
        ColumnProblem: an input is not JSON of the right kind, or a limit is exceeded.
    """
    if not draft.model.strip():
        raise ColumnProblem("Model: name one, such as the recorded one.")
    if (length := len(draft.model.strip())) > MAX_MODEL:
        raise ColumnProblem(f"Model: {length:,} characters, and at most {MAX_MODEL} are sent. Shorten it.")
    if len(draft.instruction) > MAX_INSTRUCTION:
        raise ColumnProblem(
            f"System instruction: {len(draft.instruction):,} characters, and at most {MAX_INSTRUCTION:,} are sent."
            " Shorten it."
        )
    column = RequestColumn(
        model=draft.model.strip(),
        system_instruction=draft.instruction,
        contents=list(_parse_contents(draft)),
        tools=[_parse_tool(number, tool) for number, tool in enumerate(draft.tools, 1) if tool.is_offered],
        config=_parse_config(draft, config_schema),
        repetitions=_parse_repetitions(draft.repetitions),
    )
    if not column.contents:
        raise ColumnProblem("Contents: there are none, and a model needs one. Add a content.")
    try:
        length = len(_as_json(column.request_json()))
    except RecursionError as error:
        raise ColumnProblem("Request: it is nested too deeply. Remove levels of its JSON.") from error
    if length > MAX_REQUEST:
        raise ColumnProblem(
            f"Request: {length:,} characters, and at most {MAX_REQUEST:,} are sent. Remove contents or tools."
        )
    return column


def read_columns(text: str) -> list[RequestColumn]:
    """Return the columns that a run stores."""
    return [RequestColumn(**column) for column in json.loads(text)]


def dump_column(column: RequestColumn) -> Json:
    """Return a column as a run stores it. Its values are not copied: a copy of deep ones would exceed the stack."""
    return {entry.name: getattr(column, entry.name) for entry in fields(column)}


def dump_columns(columns: Sequence[RequestColumn]) -> list[Json]:
    """Return columns as a run stores them."""
    return [dump_column(column) for column in columns]


def _part_title(part: Mapping[str, Any]) -> str:
    for kind, field_name in (("call", "functionCall"), ("result of", "functionResponse")):
        if field_name in part:
            return f"{kind} {part[field_name].get('name') or 'no name'}"
    return truncate(str(part.get("text") or next(iter(part), "empty part")), MAX_TITLE)


def _draft_content(content: Any) -> ContentDraft:
    content = content if isinstance(content, dict) else {}
    parts = content.get("parts") or []
    role = str(content.get("role") or "user")
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"text"}:
        text = str(parts[0]["text"])
        if _is_encodable(text):
            return ContentDraft(role, text)
    return ContentDraft(role, _as_json(parts), is_json=True)


def _parse_contents(draft: ColumnDraft) -> Iterator[Json]:
    earlier = _parse_json("Earlier contents", draft.earlier_contents or "[]")
    if not isinstance(earlier, list) or not all(isinstance(content, dict) for content in earlier):
        raise ColumnProblem("Earlier contents: give a JSON list of contents, each with role and parts.")
    yield from earlier
    for number, content in enumerate(draft.contents, len(earlier) + 1):
        if not content.is_json:
            yield {"role": content.role, "parts": [{"text": content.text}]}
            continue
        parts = _parse_json(f"Content {number}", content.text)
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise ColumnProblem(
                f'Content {number}: give a JSON list of parts, such as [{{"text": "hello"}}].'
            )
        yield {"role": content.role, "parts": parts}


def _draft_tool(tool: Any, *, is_offered: bool = True) -> ToolDraft:
    description = tool.get("description", "") if isinstance(tool, dict) and "name" in tool else None
    if not isinstance(description, str) or not _is_encodable(description):
        return ToolDraft(_as_json(tool), None, is_offered)
    others = {name: value for name, value in tool.items() if name != "description"}
    return ToolDraft(_as_json(others), description, is_offered)


def _parse_tool(number: int, tool: ToolDraft) -> Json:
    declaration = _parse_object(f"Tool {tool.name or number}", tool.declaration)
    return {**declaration, "description": tool.description} if tool.description else declaration


def _parse_config(draft: ColumnDraft, schema: Mapping[str, Any]) -> Json:
    others = _parse_object("Generation config", draft.config.strip() or "{}")
    try:
        settings = parse_inputs(schema, draft.config_inputs)
    except ValueError as error:
        raise ColumnProblem(f"Generation config: {error} Correct it.") from error
    for name in settings.keys() & others.keys():
        raise ColumnProblem(f"Generation config: {name} is set in its field and in the JSON. Remove one.")
    return {**others, **settings}


def _parse_object(subject: str, text: str) -> Json:
    value = _parse_json(subject, text)
    if not isinstance(value, dict):
        raise ColumnProblem(f'{subject}: give a JSON object, such as {{"temperature": 0.2}}.')
    return value


def _parse_json(subject: str, text: str) -> Any:
    value, error = parse_json_input(text)
    if error:
        raise ColumnProblem(f"{subject}: this is not valid JSON. {error} Correct it.")
    return value


def _parse_repetitions(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= MAX_REPETITIONS:
        raise ColumnProblem(f"Repetitions: give a number from 1 to {MAX_REPETITIONS}.")
    return number


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text if _is_encodable(text) else json.dumps(value, indent=2)


def _is_encodable(text: str) -> bool:
    """Tell whether a text can be sent to a browser: recorded ones may contain lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
