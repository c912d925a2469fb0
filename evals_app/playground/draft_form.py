"""The form of a playground run: its inputs as drafts of columns, and buttons that change them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from evals_app.playground.columns import (
    MAX_COLUMNS,
    ColumnDraft,
    ColumnProblem,
    ContentDraft,
    RequestColumn,
    ToolDraft,
    parse_draft,
)

MAX_NAME = 200
"""Characters of the name of a run."""

MAX_INPUTS = 5_000
"""Contents, and tools, of a column that are read from a form."""


@dataclass(frozen=True, slots=True)
class PlaygroundForm:
    """The inputs of the form as a person typed them. `problems` says by the position of a column why it is invalid."""

    columns: list[ColumnDraft]
    name: str = ""
    problems: Mapping[int, str] = field(default_factory=dict)

    @property
    def rows(self) -> list[tuple[int, ColumnDraft, str]]:
        """Position, draft and problem of each column."""
        return [
            (position, column, self.problems.get(position, ""))
            for position, column in enumerate(self.columns)
        ]

    @property
    def can_add(self) -> bool:
        """Tell whether another column may be added."""
        return len(self.columns) < MAX_COLUMNS


def read_form(data: Mapping[str, str]) -> PlaygroundForm:
    """Return the form with these inputs."""
    count = min(_read_count(data, "columns"), MAX_COLUMNS)
    columns = [_read_column(data, f"c{position}-") for position in range(count)]
    return PlaygroundForm(columns, read_name(data))


def read_name(data: Mapping[str, str]) -> str:
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
            columns.append(parse_draft(draft))
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


def _read_column(data: Mapping[str, str], prefix: str) -> ColumnDraft:
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
                f"{prefix}tool{number}-offered" in data,
            )
            for number in range(_read_count(data, f"{prefix}tools"))
        ],
        config=_read_text(data, f"{prefix}config"),
        repetitions=data.get(f"{prefix}repetitions", ""),
    )


def _read_text(data: Mapping[str, str], name: str) -> str:
    """Return a text with the line ends of the recorded ones: browsers send CR LF."""
    return data.get(name, "").replace("\r\n", "\n")


def _read_count(data: Mapping[str, str], name: str) -> int:
    text = data.get(name, "")
    return min(int(text), MAX_INPUTS) if text.isdecimal() and len(text) < 6 else 0
