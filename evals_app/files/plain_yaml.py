"""YAML with JSON's types: a date stays text, and `no` is a word."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C, if PyYAML has it, is about ten times as fast."""


class PlainLoader(_Loader):  # type: ignore[misc]  # one of two loaders of PyYAML, which has no types
    """SafeLoader with JSON's types. `duplicate_keys`: keys that an object contains twice."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.duplicate_keys: list[str] = []

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Return an object, and record its duplicate keys."""
        counts = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        self.duplicate_keys += [name for name, count in counts.items() if count > 1]
        return super().construct_mapping(node, deep)


_JSON_TYPES = {"null", "int", "float"}
PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in _JSON_TYPES]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


OTHER_TYPES = ("set", "binary", "timestamp")
"""Tags of values that JSON does not have."""


def _refuse_tag(loader: PlainLoader, node: Any) -> Any:
    """Refuse a value with one of the tags `OTHER_TYPES`.

    Raises:
        yaml.MarkedYAMLError: always.
    """
    tag = node.tag.rpartition(":")[2]
    reason = f"a value has the tag !!{tag}, which JSON does not have: omit the tag"
    raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark)


for _tag in OTHER_TYPES:
    PlainLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _refuse_tag)


MAX_DEPTH = 500
"""Most levels of nested values."""

MAX_NODES = 1_000_000
"""Most keys and values of a text; each takes about ten microseconds to load."""


def load_yaml(text: str, *, max_nodes: int = MAX_NODES) -> tuple[Any, list[str]]:
    """Parse YAML to JSON's types; return also the keys that an object contains twice.

    Raises:
        yaml.YAMLError: the text is no YAML.
        ValueError: the text has too many keys and values, or its aliases expand too much.
        RecursionError: values are nested too deeply.
    """
    try:
        _check_size(text, max_nodes)
    except yaml.MarkedYAMLError as error:  # PyYAML from 6.0.4 on has a limit of its own
        if "nesting depth" in str(error.problem):
            raise RecursionError(error.problem) from error
        raise
    loader = PlainLoader(text)
    try:
        document = loader.get_single_data()
    except (KeyError, AttributeError, OverflowError) as error:  # raised by PyYAML's constructors
        raise ValueError("a value does not fit its tag, such as `!!bool maybe`: omit the tag") from error
    finally:
        loader.dispose()
    node_limit = 1_000_000 + 20 * len(text)
    if _expanded_size(document, {}) > node_limit:
        raise ValueError(f"its aliases stand for more than {node_limit:,} characters: write less with them")
    return document, loader.duplicate_keys


def _check_size(text: str, max_nodes: int) -> None:
    """Check for sizes that would take minutes to load, or overflow the stack of the loader in C.

    Raises:
        ValueError: there are too many keys and values.
        RecursionError: values are nested too deeply.
    """
    depth = nodes = 0
    for event in yaml.parse(text, Loader=PlainLoader):
        nodes += isinstance(event, yaml.NodeEvent)
        if nodes > max_nodes:
            raise ValueError(f"it has more than {max_nodes:,} keys and values: split it, or write it as JSON")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise RecursionError(f"deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _expanded_size(value: Any, sizes: dict[int, int]) -> int:
    """Return the approximate length of a value with aliases expanded. Shared values are measured once."""
    if not isinstance(value, dict | list):
        return len(value) if isinstance(value, str) else 1
    if id(value) not in sizes:
        sizes[id(value)] = 0  # a recursive value is rejected when it becomes JSON
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_expanded_size(part, sizes) for part in parts)
    return sizes[id(value)]


class _Dumper(yaml.SafeDumper):
    """Dumper for all YAML versions: ambiguous words such as `no` are quoted, multi-line text is a block."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _IndentedDumper(_Dumper):
    """Dumper that indents the items of lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_AMBIGUOUS_WORDS = re.compile(r"[yYnN]|0o[0-7]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+")
"""Words that are text to PyYAML, but numbers in YAML 1.2 or booleans in strict YAML 1.1 parsers."""


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else "'" if _AMBIGUOUS_WORDS.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(value: Any, *, indented: bool = False, flow: bool = False, quotes: str | None = None) -> str:
    """Return a value as YAML lines.

    Args:
        indented: indent the items of lists.
        flow: write one line in flow style.
        quotes: quote every text in this way.
    """
    return yaml.dump(
        value,
        Dumper=_IndentedDumper if indented else _Dumper,
        default_flow_style=flow,
        default_style=quotes,
        allow_unicode=True,
        sort_keys=False,
        width=1_000_000,
    )
