"""Extensions that installed packages add: metrics, problem detectors, importers and dialects.

A package names each extension by an entry point in one of the groups below. Nothing is loaded before it is needed.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Container, Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Generic, TypeVar

METRICS = "devui.metrics"
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
    loaded = (
        _load_plugin(plugin) for plugin in sorted(entry_points(group=group), key=lambda plugin: plugin.name)
    )
    return tuple(plugin for plugin in loaded if plugin is not None)


@cache
def import_modules(package: str) -> tuple[ModuleType, ...]:
    """Import all modules of one of our own packages, and return them in the order of their names."""
    modules = pkgutil.iter_modules(import_module(package).__path__)
    return tuple(import_module(f"{package}.{module.name}") for module in modules)


class Registry(Generic[T]):
    """DevUI's own objects of a class, and those that installed packages add."""

    def __init__(self, kind: type[T], group: str, read_own: Callable[[], Iterable[ModuleType]]) -> None:
        """Take the class, the group of entry points, and what returns DevUI's own modules with such objects."""
        self._kind = kind
        self._group = group
        self._read_own = read_own

    def own(self) -> list[T]:
        """Return DevUI's own objects."""
        return [item for module in self._read_own() for item in self._objects_in(module)]

    def added(self) -> list[T]:
        """Return the objects of installed packages. A plugin without any is logged."""
        objects: list[T] = []
        for plugin in load_plugins(self._group):
            plugin_objects = self._objects_in(plugin)
            if not plugin_objects:
                log.error("The plugin %r names no %s.", plugin, self._kind.__name__)
            objects += plugin_objects
        return objects

    def by_name(self, name: Callable[[T], str], taken: Container[str] = ()) -> dict[str, T]:
        """Return DevUI's own objects, then those of installed packages, by name. The first of a name wins.

        Args:
            name: returns the name of an object.
            taken: names that no object may have.
        """
        named: dict[str, T] = {}
        for item in (*self.own(), *self.added()):
            if name(item) in taken or named.setdefault(name(item), item) is not item:
                log.error("Another %s %r is omitted: the name is in use.", self._kind.__name__, name(item))
        return named

    def _objects_in(self, plugin: Any) -> list[T]:
        """Return the objects that a module defines; for such an object, the object itself."""
        objects = [plugin] if isinstance(plugin, self._kind) else getattr(plugin, "__dict__", {}).values()
        return [item for item in objects if isinstance(item, self._kind)]


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


def _load_plugin(plugin: EntryPoint) -> Any:
    try:
        return plugin.load()
    except FAILURES:
        package = plugin.dist.name if plugin.dist else "an unknown package"
        log.exception("The plugin %s = %s of %s cannot be loaded.", plugin.name, plugin.value, package)
        return None
