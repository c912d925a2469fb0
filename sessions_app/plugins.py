"""Extensions that installed packages add: metrics, lint rules, problem detectors, importers and dialects.

A package names each extension by an entry point in one of the groups below. Nothing is loaded before it is needed.
"""

from __future__ import annotations

import logging
import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, TypeVar

METRICS = "devui.metrics"
LINT_RULES = "devui.lint_rules"
PROBLEMS = "devui.problems"
IMPORTERS = "devui.importers"
DIALECTS = "devui.dialects"

FAILURES = (Exception, SystemExit)
"""Exceptions of plugins that are caught. `SystemExit` is one, because a plugin must not end the server."""

log = logging.getLogger(__name__)

T = TypeVar("T")


@cache
def load_plugins(group: str) -> tuple[Any, ...]:
    """Return the objects that installed packages name in a group, in the order of their names.

    A plugin that cannot be imported is logged and omitted.
    """
    loaded = (_load(plugin) for plugin in sorted(entry_points(group=group), key=lambda plugin: plugin.name))
    return tuple(plugin for plugin in loaded if plugin is not None)


@cache
def import_modules(package: str) -> tuple[ModuleType, ...]:
    """Import all modules of one of our own packages, and return them in the order of their names."""
    modules = pkgutil.iter_modules(import_module(package).__path__)
    return tuple(import_module(f"{package}.{module.name}") for module in modules)


def objects_in(plugin: Any, kind: type[T]) -> list[T]:
    """Return the objects of a class that a module defines; for such an object, the object itself."""
    objects = [plugin] if isinstance(plugin, kind) else getattr(plugin, "__dict__", {}).values()
    return [each for each in objects if isinstance(each, kind)]


def require_texts(plugin: object, *fields: str) -> None:
    """Check that fields of an object of a plugin are texts that a page can show.

    Raises:
        TypeError: one is not a text.
        UnicodeEncodeError: one has half of a character.
    """
    for field in fields:
        if not isinstance(text := getattr(plugin, field), str):
            raise TypeError(f"{field} of {type(plugin).__name__} is not text: {text!r}")
        text.encode()


def _load(plugin: EntryPoint) -> Any:
    try:
        return plugin.load()
    except FAILURES:
        package = plugin.dist.name if plugin.dist else "an unknown package"
        log.exception("The plugin %s = %s of %s cannot be loaded.", plugin.name, plugin.value, package)
        return None
