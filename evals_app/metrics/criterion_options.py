"""Options of metrics besides their threshold: read, checked and changed in a criterion. Pure.

A criterion is stored as in its file: only changed options are written, in snake case.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from sessions_app.store.errors import BadInput

Json = dict[str, Any]
Criterion = float | Mapping[str, Any]

MAX_SAMPLES = 50
MISSING = object()


class Widget(StrEnum):
    """The form widget of an option."""

    CHOICE = "choice"
    FLAG = "flag"
    NUMBER = "number"
    TEXT = "text"
    RUBRICS = "rubrics"
    LINES = "lines"


@dataclass(frozen=True, slots=True)
class Option:
    """A field of a criterion; a dot in its name separates nested objects."""

    name: str
    label: str
    widget: Widget
    default: Any = ""
    choices: tuple[tuple[str, str], ...] = ()
    placeholder: str = ""
    least: int = 1
    most: int = MAX_SAMPLES


JUDGE = (
    Option("judge_model_options.judge_model", "Judge model", Widget.TEXT, placeholder="of the run"),
    Option(
        "judge_model_options.num_samples",
        "Samples per verdict",
        Widget.NUMBER,
        None,
        placeholder="of the run",
    ),
    Option(
        "judge_model_options.parallelism_limit", "Parallel requests", Widget.NUMBER, None, placeholder="1"
    ),
)

SIMULATOR = "user_simulator_config"
SIMULATOR_OPTIONS = (
    Option("model", "Model", Widget.TEXT, placeholder="gemini-2.5-flash"),
    Option(
        "max_allowed_invocations", "Turns at most", Widget.NUMBER, None, placeholder="20", least=-1, most=1000
    ),
    Option("include_function_calls", "sees tool calls and their results", Widget.FLAG, False),
    Option("custom_instructions", "Instructions of your own", Widget.LINES),
)
"""Options of a simulated user, as in ADK's `LlmBackedUserSimulatorConfig`. Speech is configured in the file."""

VALUE_TYPES: dict[Widget, TypeAdapter[Any]] = {
    Widget.FLAG: TypeAdapter(bool),
    Widget.NUMBER: TypeAdapter(int),
    Widget.TEXT: TypeAdapter(str),
}
"""Types by which ADK reads options from a file: "true" and 1 are true."""

VALUE_NAMES = {
    Widget.FLAG: "true or false",
    Widget.NUMBER: "a whole number of at least {least}",
    Widget.TEXT: "text",
    Widget.RUBRICS: "a list of rubrics",
}


def check_criterion(name: str, options: Sequence[Option], criterion: Criterion, source: str) -> None:
    """Check the options of a criterion that ADK would refuse only after the run has started.

    Raises:
        BadInput: an option is invalid; the message names the allowed values.
    """
    for option in options:
        value = _stored_value(criterion, option, MISSING)
        if value is MISSING or (value is not None and _is_valid(option, value)):
            if option.widget is Widget.RUBRICS and isinstance(value, list):
                _require_distinct_rubrics(value, f"{source}: {option.name} of {name}")
            continue
        value_text = "null or NaN" if value is None else repr(value)
        if option.widget is Widget.CHOICE:
            allowed = [choice for choice, _ in option.choices]
            near = difflib.get_close_matches(normalize_choice(value or ""), allowed, n=1, cutoff=0.4)
            raise BadInput(
                f"{source}: {option.name} of {name} is {value_text}, which is not one of {', '.join(allowed)}.",
                hint=f"Did you mean {near[0]}?" if near else "Write one of them.",
            )
        value_name = VALUE_NAMES[option.widget].format(least=option.least)
        raise BadInput(
            f"{source}: {option.name} of {name} is {value_text}, which is not {value_name}.",
            hint="Correct it or omit it.",
        )


def _require_distinct_rubrics(rubrics: Sequence[Any], subject: str) -> None:
    ids = [_field_value(rubric, "rubric_id") for rubric in rubrics if isinstance(rubric, Mapping)]
    if repeated := [rubric_id for rubric_id, count in Counter(ids).items() if rubric_id and count > 1]:
        raise BadInput(f"{subject}: two have the id {repeated[0]!r}.", hint="Rename one.")


def _is_valid(option: Option, value: Any) -> bool:
    if option.widget is Widget.CHOICE:
        return _match_choice(option, value) is not None
    try:
        read = VALUE_TYPES[option.widget].validate_python(value) if option.widget in VALUE_TYPES else value
    except ValidationError:
        return False
    return option.widget is not Widget.NUMBER or bool(read >= option.least)


def normalize_choice(value: Any) -> str:
    """Return a choice in ADK's spelling."""
    return str(value).strip().upper().replace("-", "_").replace(" ", "_")


def _match_choice(option: Option, value: Any) -> str | None:
    """Return the choice that a value names, by its position or in any spelling; None: no choice."""
    choices = [choice for choice, _ in option.choices]
    if isinstance(value, int):
        return choices[value] if 0 <= value < len(choices) else None
    return next((choice for choice in choices if normalize_choice(choice) == normalize_choice(value)), None)


def option_value(criterion: Criterion | None, option: Option) -> Any:
    """Return the value of an option in a criterion, in snake or camel case, or its default."""
    value = _stored_value(criterion, option)
    if option.widget is Widget.CHOICE:
        value = _match_choice(option, value)
    if option.widget is Widget.FLAG and value is not None and _is_valid(option, value):
        value = VALUE_TYPES[Widget.FLAG].validate_python(value)
    return option.default if value is None else value


def _stored_value(criterion: Criterion | None, option: Option, missing: Any = None) -> Any:
    """Return the value of an option in a criterion as stored; `missing` if it is not set."""
    value: Any = criterion
    for name in option.name.split("."):
        if not isinstance(value, Mapping):
            return None if value is None else missing
        value = value.get(name, value.get(to_camel(name), missing))
    return value


def with_value(criterion: Criterion, option: Option, value: Any) -> Criterion:
    """Return the criterion with an option set, or removed by None; unchanged if it has this value."""
    if value == option_value(criterion, option):
        return criterion
    updated: Json = dict(criterion) if isinstance(criterion, Mapping) else {"threshold": criterion}
    *path, last = option.name.split(".")
    parent: Json = updated
    for name in path:
        inner = parent.pop(name, None)
        inner = parent.pop(to_camel(name), None) if inner is None else inner
        parent[name] = dict(inner) if isinstance(inner, Mapping) else {}
        parent = parent[name]
    parent.pop(to_camel(last), None)
    parent.pop(last, None)
    if value is not None:
        parent[last] = value
    return updated


def other_fields(options: Sequence[Option], criterion: Criterion | None) -> list[str]:
    """Return the fields of a criterion without an option, as text: they stay as in the file."""
    if not isinstance(criterion, Mapping):
        return []
    own_fields = {option.name.split(".")[0] for option in options}
    spelled = {*own_fields, *(to_camel(part) for part in own_fields), "threshold"}
    remaining = [field for field in criterion if field not in spelled]
    judge = criterion.get("judge_model_options", criterion.get("judgeModelOptions"))
    if isinstance(judge, Mapping) and {"judge_model_config", "judgeModelConfig"} & judge.keys():
        remaining.append("judge_model_config")
    return [field.replace("_", " ") for field in remaining]


def read_input(option: Option, values: Sequence[str], old: Any) -> Any:
    """Return the value that a form sent for an option; `old` is its current value in the criterion.

    Raises:
        BadInput: the option does not have this value.
    """
    if option.widget is Widget.FLAG:
        return bool(values)
    text = values[-1].strip() if values else ""
    if option.widget is Widget.RUBRICS:
        return parse_rubrics(text, old)
    if option.widget is Widget.NUMBER:
        return _parse_number(option, text)
    if option.widget is Widget.CHOICE and text not in dict(option.choices):
        raise BadInput(
            f"{option.label}: {text!r} is none of the choices.",
            hint=f"Choices: {', '.join(value for value, _ in option.choices)}.",
        )
    return text or option.default


def parse_text(option: Option, text: str) -> Any:
    """Return the value that a text on the command line names for an option.

    Raises:
        BadInput: the option does not have this value.
    """
    if option.widget is Widget.CHOICE:
        text = _match_choice(option, text) or text
    if option.widget is not Widget.FLAG:
        return read_input(option, [text], ())
    try:
        return VALUE_TYPES[option.widget].validate_python(text.strip())
    except ValidationError:
        raise BadInput(f"{option.name} is true or false, not {text!r}.", hint="Give one of both.") from None


def rubrics_as_text(rubrics: Sequence[Mapping[str, Any]]) -> str:
    """Return rubrics as lines of `id: text`."""
    return "\n".join(
        f"{_field_value(rubric, 'rubric_id')}: {_field_value(_field_value(rubric, 'rubric_content'), 'text_property')}"
        for rubric in rubrics
        if isinstance(rubric, Mapping)
    )


def parse_rubrics(text: str, old: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the rubrics that lines of `id: text` name; the rest of one that was there stays. As they were: `old`.

    Raises:
        BadInput: a line lacks its text, or two have one id.
    """
    if text.replace("\r\n", "\n") == rubrics_as_text(old):
        return old
    old_by_id = {_field_value(rubric, "rubric_id"): rubric for rubric in old if isinstance(rubric, Mapping)}
    rubrics: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(filter(None, map(str.strip, text.splitlines())), start=1):
        name, colon, says = line.partition(":")
        name, says = (name.strip(), says.strip()) if colon else (f"rubric_{number}", line)
        if not name or not says:
            raise BadInput(f"The rubric {line!r} has no text.", hint="Write: id: what must be true.")
        if name in rubrics:
            raise BadInput(f"Two rubrics have the id {name!r}.", hint="Give each an id of its own.")
        before = {
            key: value
            for key, value in old_by_id.get(name, {}).items()
            if key not in ("rubricId", "rubricContent")
        }
        rubrics[name] = {**before, "rubric_id": name, "rubric_content": {"text_property": says}}
    return list(rubrics.values())


def _field_value(value: Any, name: str) -> Any:
    return value.get(name, value.get(to_camel(name), "")) if isinstance(value, Mapping) else ""


def _parse_number(option: Option, text: str) -> int | None:
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        raise BadInput(f"{option.label} is not a whole number: {text!r}.", hint="Give one.") from None
    if not option.least <= number <= option.most:
        raise BadInput(
            f"{option.label} must be {option.least} to {option.most}, not {number}.",
            hint="Give another number.",
        )
    return number
