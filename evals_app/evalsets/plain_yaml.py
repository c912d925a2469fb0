"""YAML with JSON's types: a date stays text, and `no` is a word."""

from __future__ import annotations

import re
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, where PyYAML was built with it, is some ten times as quick."""


class PlainLoader(_Loader):  # type: ignore[misc]
    """A SafeLoader with fewer types."""


_KEPT_TYPES = {"null", "int", "float"}
PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in _KEPT_TYPES]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


class _Dumper(yaml.SafeDumper):
    """Writes what every reader of YAML understands alike: words such as `no` are quoted, text of lines is a block."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _IndentedDumper(_Dumper):
    """Sets the items of a list in from their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def dump(value: Any, *, indented: bool = False, flow: bool = False, quotes: str | None = None) -> str:
    """Return a value as YAML lines.

    Args:
        value: JSON values.
        indented: items of lists stand further in than their key.
        flow: all on one line, in brackets.
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
