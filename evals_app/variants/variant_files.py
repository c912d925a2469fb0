"""Files of variants in YAML or JSON, whose shape is checked here. The process of the agent checks names and values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from evals_app.files.parsing import LoadedDocument, load_document, read_text
from evals_app.variants.variant import ORIGINAL, Variant, require_distinct_variants, require_few_variants
from sessions_app.file_problems import BadFile, FileProblem

MAX_CHARACTERS = 200_000
"""Most characters of a file."""
MAX_NAME_CHARACTERS = 60
"""Most characters of a name, which heads a column."""
MAX_NOTE_CHARACTERS = 2_000

HINT = "A file has name, note and agents: {AGENT: {FIELD: new value}}. docs/variants.md lists the fields."


def _check_name(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise ValueError("must be text in one line, without invisible characters")
    if name == ORIGINAL:
        raise ValueError(f"must not be {ORIGINAL!r}: that is the agent as it is")
    return name


def _require_agent(agents: dict[str, _AgentPatch]) -> dict[str, _AgentPatch]:
    if not agents:
        raise ValueError("is empty: name at least one agent")
    return agents


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Removals(_StrictModel):
    remove: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _require_change(self) -> Self:
        if not any(value for _, value in self):
            raise ValueError("is empty: add an entry or remove the field")
        return self


class _ToolChanges(_Removals):
    describe: dict[str, str] = Field(default_factory=dict)


class _AgentPatch(BaseModel):
    """Changes of one agent. The other fields are those of its class."""

    model_config = ConfigDict(extra="allow")

    tools: _ToolChanges = Field(default_factory=_ToolChanges.model_construct)
    sub_agents: _Removals = Field(default_factory=_Removals.model_construct)

    @model_validator(mode="after")
    def _require_change(self) -> _AgentPatch:
        if not self.model_fields_set:
            raise ValueError("changes nothing: name a field, or leave the agent out")
        return self


class _VariantFile(_StrictModel):
    name: Annotated[str, Field(max_length=MAX_NAME_CHARACTERS), AfterValidator(_check_name)]
    note: str = Field("", max_length=MAX_NOTE_CHARACTERS)
    agents: Annotated[dict[str, _AgentPatch], AfterValidator(_require_agent)]


def read_variant(path: Path) -> Variant:
    """Read the file of a variant.

    Raises:
        NotFound: the file does not exist.
        BadFile: it cannot be read, is no JSON or YAML, or no variant.
    """
    return parse_variant(read_text(path), path.name, str(path))


def parse_variants(contents: Sequence[Any]) -> list[Variant]:
    """Return the variants of a request, each an object like the content of a file.

    Raises:
        BadFile: one is no variant; each problem names its position and field.
        BadInput: there are too many, or two are alike.
    """
    require_few_variants(len(contents))
    variants = [parse_content(content, f"variants[{position}]") for position, content in enumerate(contents)]
    require_distinct_variants(variants)
    return variants


def parse_content(content: Any, shown_as: str) -> Variant:
    """Return the variant of an object like the content of a file; errors name it `shown_as`.

    Raises:
        BadFile: it is no variant; each problem names its field.
    """
    try:
        return parse_variant(json.dumps(content), "variant.json", shown_as)
    except BadFile as error:  # lines and columns are those of a text that nobody has seen
        problems = [replace(problem, line=0, column=0) for problem in error.problems]
        raise BadFile(problems, hint=error.hint) from error


def parse_variant(text: str, file_name: str, shown_as: str) -> Variant:
    """Parse a variant. The file's name decides between JSON and YAML; errors name it `shown_as`.

    Raises:
        BadFile: with file, line and field of each problem.
    """
    if len(text) > MAX_CHARACTERS:
        reason = f"has {len(text):,} characters, more than {MAX_CHARACTERS:,}: shorten its texts"
        raise BadFile([FileProblem(shown_as, reason)])
    loaded = load_document(text, file_name, shown_as)
    if loaded.warnings:
        raise BadFile([FileProblem(shown_as, warning) for warning in loaded.warnings], hint=HINT)
    return Variant(*_validate(loaded))


def _validate(loaded: LoadedDocument) -> tuple[str, str, dict[str, Any]]:
    try:
        content = _VariantFile.model_validate_json(loaded.as_json)
    except ValidationError as error:
        raise BadFile(loaded.problems(error), hint=HINT) from error
    agents = {name: changes.model_dump(exclude_unset=True) for name, changes in content.agents.items()}
    return content.name, content.note, agents
