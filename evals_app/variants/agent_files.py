"""Saves a variant to the files of its agent: literals in Python code, and fields of YAML agents.

A change is planned first, so that users can review it. What stands in no literal is offered to copy.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evals_app.files import atomic_writes, yaml_edit
from evals_app.files.atomic_writes import FileChanged, text_digest
from evals_app.files.file_changes import agents_folder, write_error
from evals_app.files.pairing import is_same_json
from evals_app.files.parsing import read_text
from evals_app.files.plain_yaml import dump_yaml, load_yaml
from evals_app.variants.python_source import FieldValue, NotReplaceable, PythonSource
from evals_app.variants.variant import Variant
from sessions_app.agents.folder import code_below
from sessions_app.store.errors import BadInput, DevUIError

MAX_FILES = 300
MAX_BYTES = 2_000_000
"""Most files of an agent, and bytes of them together, that are searched for its definition."""

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
    """Planned changes of files that save a variant, and the fields that a person must change by hand."""

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

    def find_lines(self, agent_name: str) -> list[int]:
        """Return the first line if the file defines the agent, else none."""
        return [1] if self._document.get("name") == agent_name else []

    def find_variable(self, agent_name: str, field: str) -> str:
        """Return the variable that holds the value of a field: YAML has none."""
        return ""

    def find_value(self, agent_name: str, field: str) -> FieldValue:
        """Return the value of a field of the agent, set or not.

        Raises:
            NotReplaceable: YAML agents do not have the field.
        """
        if field not in YAML_FIELDS:
            raise NotReplaceable("YAML agents do not have it")
        return FieldValue(field, self._document.get(field))

    def replace(self, changes: Iterable[tuple[FieldValue, Any]]) -> str:
        """Return the text with new values of fields.

        Raises:
            ValueError: a value cannot be changed in place.
        """
        new = {**self._document, **{literal.field: value for literal, value in changes}}
        config, old_config = new.get(CONFIG), self._document.get(CONFIG)
        if isinstance(config, dict) and isinstance(old_config, dict) and HTTP_OPTIONS in old_config:
            new[CONFIG] = {
                **config,
                HTTP_OPTIONS: old_config[HTTP_OPTIONS],
            }  # a variant keeps those of the agent
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
        BadInput: the app has too many files.
    """
    texts = _read_texts(app_name)
    sources = _parse_sources(texts, variant.patch)
    root = agents_folder().root.resolve()
    changes: dict[Path, list[tuple[FieldValue, Any]]] = defaultdict(list)
    unsaved = []
    for agent, fields in variant.patch.items():
        locations = [(path, line) for path, source in sources.items() for line in source.find_lines(agent)]
        for field, value in fields.items():
            try:
                path = _find_file(locations, agent, field)
                changes[path].append((_find_value(texts, path, sources[path], (agent, field), value), value))
            except NotReplaceable as error:
                text = value if isinstance(value, str) else dump_yaml({field: value}).rstrip("\n")
                location = f"{locations[0][0].relative_to(root)}:{locations[0][1]}" if locations else ""
                unsaved.append(UnsavedField(agent, field, str(error), text, location))
    files = [_plan_file(path, root, sources[path], changed) for path, changed in changes.items()]
    return SavePlan(tuple(file for file in files if file.before != file.after), tuple(unsaved))


def write_changes(plan: SavePlan) -> None:
    """Write the changes of a plan. Nothing is written if a file has changed since the plan was made.

    Raises:
        FileChanged: a file has changed since the plan was made.
        NotFound: a file does not exist.
        BadInput: a file cannot be written, or changed while others were written; the message names those.
    """
    for change in plan.changes:
        if read_text(change.path, change.shown_as) != change.before:
            raise FileChanged(change.shown_as)
    written: list[str] = []
    for change in plan.changes:
        try:
            atomic_writes.replace_file(change.path, change.shown_as, change.before, change.after)
        except (OSError, DevUIError) as error:
            raise _describe_failed_write(change, written, error) from error
        written.append(change.shown_as)


def _describe_failed_write(change: FileChange, written: Sequence[str], error: Exception) -> DevUIError:
    if isinstance(error, OSError):
        refusal: DevUIError = write_error(change.path, error)
    else:
        refusal = BadInput(f"{change.shown_as} was changed meanwhile.", hint="Open the page again.")
    if written:
        refusal = BadInput(f"{refusal.message} Saved before it: {', '.join(written)}.", hint=refusal.hint)
    return refusal


def _read_texts(app_name: str) -> dict[Path, str]:
    """Return the texts of an app's code by path; files that a link brings in from elsewhere are left out.

    Raises:
        BadInput: there are too many.
    """
    agents = agents_folder()
    folder = agents.app_folder(app_name).resolve()
    paths = {file.resolve() for file in code_below(folder) if file.suffix in SOURCES}
    own_paths = [path for path in sorted(paths) if path.is_relative_to(folder)]
    if not folder.is_relative_to(agents.root.resolve()):
        own_paths = []
    if len(own_paths) > MAX_FILES or sum(map(_get_size, own_paths)) > MAX_BYTES:
        raise BadInput(
            f"The folder of {app_name} has more than {MAX_FILES} files or {MAX_BYTES:,} bytes of code.",
            hint="Download the variant, and change the agent by hand.",
        )
    texts = {}
    for path in own_paths:
        with suppress(DevUIError):  # a file that cannot be read defines no agent
            texts[path] = read_text(path)
    return texts


def _get_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # removed meanwhile


def _parse_sources(texts: Mapping[Path, str], names: Iterable[str]) -> dict[Path, AgentSource]:
    """Return the files that can be parsed and have one of the names in their text."""
    sources: dict[Path, AgentSource] = {}
    for path, text in texts.items():
        if any(name in text for name in names):
            with suppress(yaml.YAMLError, SyntaxError, ValueError, RecursionError, MemoryError):
                sources[path] = SOURCES[path.suffix](text)
    return sources


def _find_file(locations: Sequence[tuple[Path, int]], agent: str, field: str) -> Path:
    """Return the file that defines an agent.

    Raises:
        NotReplaceable: there is none, or something else has the same name.
    """
    if field in CODE_FIELDS:
        raise NotReplaceable("its value is code")
    if not locations:
        raise NotReplaceable("no file of the agent creates it by its name")
    if len(locations) > 1:
        raise NotReplaceable(f"{len(locations)} places in the agent's files have the name {agent!r}")
    return locations[0][0]


def _find_value(
    texts: Mapping[Path, str], path: Path, source: AgentSource, key: tuple[str, str], value: Any
) -> FieldValue:
    """Return the present value of an agent's field, which can be replaced by `value`.

    Raises:
        NotReplaceable: it cannot.
    """
    present = source.find_value(*key)
    variable = source.find_variable(*key)
    word = re.compile(rf"\b{re.escape(variable)}\b")
    if variable and any(word.search(text) for other, text in texts.items() if other != path):
        raise NotReplaceable(f"its value is {variable}, which another file names, too")
    try:
        source.replace([(present, value)])
    except (ValueError, RecursionError) as error:
        raise NotReplaceable(str(error)) from error
    return present


def _plan_file(
    path: Path, root: Path, source: AgentSource, changes: Sequence[tuple[FieldValue, Any]]
) -> FileChange:
    after = source.replace(
        (present, value) for present, value in changes if not is_same_json(present.value, value)
    )
    return FileChange(path, str(path.relative_to(root)), source.text, after)
