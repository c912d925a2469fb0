"""Problems of files that people write, with file, line, case, field and message."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import truncate
from sessions_app.store.text_input import decode_text, read_file

MAX_SHOWN = 5
"""Most problems that a message lists; the rest is counted."""

MAX_NAME = 200
"""Characters of the name of a field in a message."""

MAX_TOML_BYTES = 1_000_000

Content = TypeVar("Content", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Problem in a file. Line and column count from 1; 0 means unknown."""

    file: str
    what: str
    case: str = ""
    field: str = ""
    line: int = 0
    column: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the problem as JSON values."""
        return asdict(self)

    @property
    def subject(self) -> str:
        """The case and field of the problem."""
        case = f"case {self.case!r}" if self.case else ""
        return ", ".join(filter(None, (case, self.field)))

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return ": ".join(filter(None, (location, self.subject, self.what)))


class BadFile(BadInput):
    """A file is invalid; `problems` lists the reasons."""

    code: ClassVar[str] = "bad_file"

    def __init__(self, problems: Sequence[FileProblem], *, hint: str = "") -> None:
        messages = [str(problem) for problem in problems[:MAX_SHOWN]]
        if len(problems) > MAX_SHOWN:
            messages.append(f"… and {len(problems) - MAX_SHOWN} more")
        super().__init__("\n".join(messages), hint=hint)
        self.problems = list(problems)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the problems as JSON values, which the file's row stores."""
        return [problem.as_json() for problem in self.problems]


def format_path(path: Iterable[str | int]) -> str:
    """Return the path of a field, such as `price[0].input`; names are on one line and cut."""
    names = (f"[{key}]" if isinstance(key, int) else f".{_one_line(key)}" for key in path)
    return "".join(names).lstrip(".")


def _one_line(name: str) -> str:
    return truncate(name, MAX_NAME).replace("\n", "\\n").replace("\r", "\\r")


_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "is no known field: correct the name or omit it",
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list of two: the author and the parts",
    "too_long": "has too many items",
    "bytes_invalid_encoding": "must be base64",
}


def describe_error(error: ErrorDetails) -> str:
    """Return what is wrong with the value of a field, in words."""
    message = _MESSAGES.get(error["type"])
    if message is None:
        message = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    value = error.get("input")
    if error["type"] in {"missing", "extra_forbidden", "value_error"} or isinstance(value, dict | list):
        return message
    return f"{message}, not {str(value)[:60]!r}" if isinstance(value, str) else f"{message}, not {value}"


def read_toml(path: Path, schema: type[Content], *, hint: str) -> Content:
    """Read a TOML file. `hint`: what its entries look like.

    Raises:
        BadFile: the file cannot be read, or entries are invalid; all problems are named.
    """
    try:
        content = read_file(path, MAX_TOML_BYTES + 1)
    except OSError as error:
        raise BadFile([FileProblem(path.name, f"cannot be read: {error}")]) from error
    return parse_toml(content, schema, name=path.name, hint=hint)


def parse_toml(content: bytes, schema: type[Content], *, name: str, hint: str) -> Content:
    """Return the content of a TOML file with this name.

    Raises:
        BadFile: the content cannot be read, or entries are invalid; all problems are named.
    """
    try:
        if len(content) > MAX_TOML_BYTES:
            raise ValueError(f"it is larger than {MAX_TOML_BYTES // 1_000_000} MB")
        return schema.model_validate(tomllib.loads(decode_text(content)))
    except ValidationError as error:
        problems = [
            FileProblem(name, describe_error(fault), field=format_path(fault["loc"]))
            for fault in error.errors()
        ]
        raise BadFile(problems, hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise BadFile([FileProblem(name, f"cannot be read: {error}")]) from error
