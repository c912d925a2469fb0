"""Saves a variant to the files of its agent: literals in Python code, and fields of YAML agents.

A change is planned first, so that users can review it. What stands in no literal is offered to copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evals_app.files import atomic_writes, yaml_edit
from evals_app.files.atomic_writes import text_digest
from evals_app.files.file_changes import agents_folder, write_error
from evals_app.files.pairing import is_same_json
from evals_app.files.parsing import read_text
from evals_app.files.plain_yaml import dump_yaml, load_yaml
from evals_app.variants.python_source import FieldValue, NotReplaceable, PythonSource
from evals_app.variants.variant import Variant
from sessions_app.agents.folder import code_below
from sessions_app.store.errors import DevUIError

MAX_FILES = 300
MAX_FILE_BYTES = 1_000_000
"""Most files of an agent, and bytes of a file, that are searched for its definition."""

MAX_YAML_NODES = 20_000
"""Most keys and values of a YAML file."""

CODE_FIELDS = {"tools", "sub_agents", "planner"}
"""Fields whose values are code, in Python and in YAML."""

CONFIG, HTTP_OPTIONS = "generate_content_config", "http_options"
YAML_FIELDS = frozenset(
    {
        "description",
        "instruction",
        "static_instruction",
        "model",
        CONFIG,
        "output_key",
        "include_contents",
        "disallow_transfer_to_parent",
        "disallow_transfer_to_peers",
        "max_iterations",
    }
)
"""Fields of a variant that ADK's YAML agents have (`LlmAgentConfig` and `LoopAgentConfig` of ADK 2.13)."""


@dataclass(frozen=True)
class FileChange:
    """Planned change of a file of an agent. `shown_as` is its path below the agents folder."""

    path: Path
    shown_as: str
    before: str
    after: str


@dataclass(frozen=True)
class UnsavedField:
    """A field of a variant that must be changed by hand.

    Attributes:
        agent, field: what it is.
        reason: why it is not saved, such as "its value is code".
        text: its new value: the text itself, else YAML.
        location: file and line of the agent's definition; empty if unknown.
    """

    agent: str
    field: str
    reason: str
    text: str
    location: str = ""


@dataclass(frozen=True)
class SavePlan:
    """What saving a variant changes, and what it leaves to a person."""

    changes: tuple[FileChange, ...]
    unsaved: tuple[UnsavedField, ...]

    @property
    def digest(self) -> str:
        """Digest of the changes."""
        parts = (part for change in self.changes for part in (change.shown_as, change.before, change.after))
        return text_digest("\n".join(map(text_digest, parts)))


class YamlSource:
    """The text of a YAML file that defines an agent, as ADK's `root_agent.yaml`.

    Raises:
        yaml.YAMLError, ValueError, RecursionError: it is no YAML object.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._document, repeated_keys = load_yaml(text, max_nodes=MAX_YAML_NODES)
        if not isinstance(self._document, dict) or repeated_keys:
            raise ValueError("it is no YAML object")

    def find_line(self, agent_name: str) -> int | None:
        """Return the first line if the file defines the agent, else None."""
        return 1 if self._document.get("name") == agent_name else None

    def find_value(self, agent_name: str, field: str) -> FieldValue | None:
        """Return the value of a field of an agent, set or not; None if the file defines another agent.

        Raises:
            NotReplaceable: YAML agents do not have the field.
        """
        if self._document.get("name") != agent_name:
            return None
        if field not in YAML_FIELDS:
            raise NotReplaceable("YAML agents do not have it")
        return FieldValue(field, self._document.get(field))

    def replace(self, changes: Iterable[tuple[FieldValue, Any]]) -> str:
        """Return the text with new values of fields.

        Raises:
            ValueError: a value cannot be changed in place.
        """
        new = {**self._document, **{literal.field: value for literal, value in changes}}
        if (config := new.get(CONFIG)) and (
            kept_options := (self._document.get(CONFIG) or {}).get(HTTP_OPTIONS)
        ):
            new[CONFIG] = {**config, HTTP_OPTIONS: kept_options}  # a variant keeps those of the agent
        text = yaml_edit.rewrite_yaml(self.text, self._document, new)
        if not is_same_json(load_yaml(text, max_nodes=MAX_YAML_NODES)[0], new):
            raise ValueError("its text cannot be changed in place without changing something else, too")
        return text


AgentSource = PythonSource | YamlSource
SOURCES: Mapping[str, type[AgentSource]] = {".py": PythonSource, ".yaml": YamlSource, ".yml": YamlSource}


def plan_changes(app_name: str, variant: Variant) -> SavePlan:
    """Return what saving a variant would change of its agent's files. Nothing is written.

    Raises:
        NotFound: the server has no folder of agents, or the app is not in it.
    """
    sources = _read_sources(app_name)
    changes: dict[Path, list[tuple[FieldValue, Any]]] = defaultdict(list)
    unsaved = []
    for agent, fields in variant.patch.items():
        for field, value in fields.items():
            try:
                path, literal = _find_value(sources, agent, field)
                _require_replaceable(sources[path], literal, value)
                changes[path].append((literal, value))
            except NotReplaceable as error:
                unsaved.append(_describe_unsaved(sources, agent, field, value, error))
    root = agents_folder().root
    files = [_plan_file(path, root, sources[path], changed) for path, changed in changes.items()]
    return SavePlan(tuple(file for file in files if file.before != file.after), tuple(unsaved))


def write_changes(plan: SavePlan) -> None:
    """Write the changes of a plan, file by file: what is written before an error stays.

    Raises:
        FileChanged: a file has changed since the plan was made.
        NotFound: a file does not exist.
        BadInput: a file cannot be written.
    """
    for change in plan.changes:
        try:
            atomic_writes.replace_file(change.path, change.shown_as, change.before, change.after)
        except OSError as error:
            raise write_error(change.path, error) from error


def _read_sources(app_name: str) -> dict[Path, AgentSource]:
    """Return the files of an app that can be parsed, by path; links out of the agents folder are left out."""
    agents = agents_folder()
    root = agents.root.resolve()
    files = (file.resolve() for file in code_below(agents.app_folder(app_name)) if file.suffix in SOURCES)
    own_files = [file for file in files if file.is_relative_to(root)]
    sources: dict[Path, AgentSource] = {}
    for file in sorted(set(own_files))[:MAX_FILES]:
        try:
            if file.stat().st_size <= MAX_FILE_BYTES:
                sources[file] = SOURCES[file.suffix](read_text(file))
        except (OSError, DevUIError, yaml.YAMLError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # a file that cannot be parsed defines no agent
    return sources


def _find_value(sources: Mapping[Path, AgentSource], agent: str, field: str) -> tuple[Path, FieldValue]:
    """Return the literal of a field, and the path of its file.

    Raises:
        NotReplaceable: there is none, or several files define the agent.
    """
    if field in CODE_FIELDS:
        raise NotReplaceable("its value is code")
    matches = [
        (path, literal)
        for path, source in sources.items()
        if (literal := source.find_value(agent, field)) is not None
    ]
    if len(matches) > 1:
        raise NotReplaceable(f"{len(matches)} files define an agent of this name")
    if not matches:
        raise NotReplaceable("the agent's code does not set it by name")
    return matches[0]


def _require_replaceable(source: AgentSource, literal: FieldValue, value: Any) -> None:
    """Require that a value can replace a literal.

    Raises:
        NotReplaceable: it cannot.
    """
    try:
        source.replace([(literal, value)])
    except ValueError as error:
        raise NotReplaceable(str(error)) from error


def _describe_unsaved(
    sources: Mapping[Path, AgentSource], agent: str, field: str, value: Any, reason: NotReplaceable
) -> UnsavedField:
    text = value if isinstance(value, str) else dump_yaml({field: value}).rstrip("\n")
    root = agents_folder().root.resolve()
    for path, source in sources.items():
        if line := source.find_line(agent):
            return UnsavedField(agent, field, str(reason), text, f"{path.relative_to(root)}:{line}")
    return UnsavedField(agent, field, str(reason), text)


def _plan_file(
    path: Path, root: Path, source: AgentSource, changes: Sequence[tuple[FieldValue, Any]]
) -> FileChange:
    after = source.replace(
        (literal, value) for literal, value in changes if not is_same_json(literal.value, value)
    )
    return FileChange(path, str(path.relative_to(root.resolve())), source.text, after)
