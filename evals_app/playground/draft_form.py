"""The form of a playground run: its inputs as drafts of columns, and buttons that change them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from django.utils.datastructures import MultiValueDict

from evals_app.playground.columns import (
    MAX_COLUMNS,
    ColumnDraft,
    ColumnProblem,
    ContentDraft,
    RequestColumn,
    ToolDraft,
    parse_draft,
)
from evals_app.playground.config_form import build_config_fields
from sessions_app.presentation.schema_form import FormField

MAX_NAME = 200
"""Characters of the name of a run."""

MAX_INPUTS = 5_000
"""Contents, and tools, of a column that are read from a form."""


class FormColumn(NamedTuple):
    """A column of the form. `problem` says why it is invalid; `config_fields` are empty if no schema is known."""

    position: int
    draft: ColumnDraft
    config_fields: list[FormField]
    problem: str

    @property
    def set_fields(self) -> list[str]:
        """Names of the fields of the config that have content."""
        return [field.name for field in self.config_fields if field.is_set]


@dataclass(frozen=True, slots=True)
class PlaygroundForm:
    """The inputs of the form as a person typed them.

    Attributes:
        config_schema: JSON schema of the generation config; empty if it is unknown.
        problems: why a column is invalid, by its position.
    """

    columns: list[ColumnDraft]
    config_schema: Mapping[str, Any]
    name: str = ""
    problems: Mapping[int, str] = field(default_factory=dict)

    @property
    def rows(self) -> list[FormColumn]:
        """The columns with what the page shows of them."""
        return [
            FormColumn(
                position,
                column,
                build_config_fields(self.config_schema, column.config_inputs, _config_prefix(position)),
                self.problems.get(position, ""),
            )
            for position, column in enumerate(self.columns)
        ]

    @property
    def can_add(self) -> bool:
        """Tell whether another column may be added."""
        return len(self.columns) < MAX_COLUMNS


def read_form(data: MultiValueDict[str, str], config_schema: Mapping[str, Any]) -> PlaygroundForm:
    """Return the form with these inputs."""
    count = min(_read_count(data, "columns"), MAX_COLUMNS)
    columns = [_read_column(data, position) for position in range(count)]
    return PlaygroundForm(columns, config_schema, read_name(data))


def read_name(data: MultiValueDict[str, str]) -> str:
    """Return the name of a run in a form, cut to `MAX_NAME`."""
    return data.get("name", "").strip()[:MAX_NAME]


def apply_action(form: PlaygroundForm, action: str) -> PlaygroundForm:
    """Return the form after a button was pressed. An unknown action changes nothing.

    Args:
        action: `add-column`, `remove-column:COLUMN`, `add-content:COLUMN`, or a key of `CONTENT_ACTIONS` followed by
            `:COLUMN:CONTENT`; both are positions from 0.
    """
    name, *numbers = action.split(":")
    positions = [int(number) for number in numbers if number.isdecimal() and len(number) < 6]
    if name == "add-column" and form.can_add and form.columns:
        return replace(form, columns=[*form.columns, form.columns[-1]])
    if not positions or positions[0] >= len(form.columns):
        return form
    column = positions[0]
    if name == "remove-column" and len(form.columns) > 1:
        return replace(form, columns=form.columns[:column] + form.columns[column + 1 :])
    contents = list(form.columns[column].contents)
    if name == "add-content":
        contents.append(ContentDraft())
    elif name in CONTENT_ACTIONS and len(positions) > 1 and positions[1] < len(contents):
        CONTENT_ACTIONS[name](contents, positions[1])
    changed = replace(form.columns[column], contents=contents)
    return replace(form, columns=[*form.columns[:column], changed, *form.columns[column + 1 :]])


def parse_columns(form: PlaygroundForm) -> tuple[list[RequestColumn], dict[int, str]]:
    """Return the requests of a form, and the problem of each invalid column by its position."""
    columns, problems = [], {}
    for position, draft in enumerate(form.columns):
        try:
            columns.append(parse_draft(draft, form.config_schema))
        except ColumnProblem as problem:
            problems[position] = str(problem)
    return columns, problems


def _move_content(contents: list[ContentDraft], position: int, new_position: int) -> None:
    if 0 <= new_position < len(contents):
        contents.insert(new_position, contents.pop(position))


CONTENT_ACTIONS: dict[str, Callable[[list[ContentDraft], int], object]] = {
    "remove-content": lambda contents, position: contents.pop(position),
    "move-up": lambda contents, position: _move_content(contents, position, position - 1),
    "move-down": lambda contents, position: _move_content(contents, position, position + 1),
}
"""By the name of a button: the function that changes a list of contents at a position."""


def _config_prefix(position: int) -> str:
    """Return what the names of the inputs of a column's config start with."""
    return f"c{position}-config."


def _read_column(data: MultiValueDict[str, str], position: int) -> ColumnDraft:
    prefix, config_prefix = f"c{position}-", _config_prefix(position)
    return ColumnDraft(
        model=data.get(f"{prefix}model", ""),
        instruction=_read_text(data, f"{prefix}instruction"),
        earlier_contents=_read_text(data, f"{prefix}earlier"),
        contents=[
            ContentDraft(
                data.get(f"{prefix}content{number}-role", "user"),
                _read_text(data, f"{prefix}content{number}-text"),
                f"{prefix}content{number}-json" in data,
            )
            for number in range(_read_count(data, f"{prefix}contents"))
        ],
        tools=[
            ToolDraft(
                _read_text(data, f"{prefix}tool{number}"),
                _read_description(data, f"{prefix}tool{number}-description"),
                f"{prefix}tool{number}-offered" in data,
            )
            for number in range(_read_count(data, f"{prefix}tools"))
        ],
        config_inputs={
            name.removeprefix(config_prefix): data.getlist(name)
            for name in data
            if name.startswith(config_prefix)
        },
        config=_read_text(data, f"{prefix}config"),
        repetitions=data.get(f"{prefix}repetitions", ""),
    )


def _read_description(data: MultiValueDict[str, str], name: str) -> str | None:
    return _read_text(data, name) if name in data else None


def _read_text(data: MultiValueDict[str, str], name: str) -> str:
    """Return a text with the line ends of the recorded ones: browsers send CR LF."""
    return data.get(name, "").replace("\r\n", "\n")


def _read_count(data: MultiValueDict[str, str], name: str) -> int:
    text = data.get(name, "")
    return min(int(text), MAX_INPUTS) if text.isdecimal() and len(text) < 6 else 0
