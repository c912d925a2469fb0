"""Extensions that installed packages add: metrics, lint rules, importers and dialects of remote servers.

A package names each extension by an entry point in one of the groups below. Nothing is loaded before it is needed.
"""

from __future__ import annotations

import logging
import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

METRICS = "devui.metrics"
LINT_RULES = "devui.lint_rules"
IMPORTERS = "devui.importers"
DIALECTS = "devui.dialects"

log = logging.getLogger(__name__)


@cache
def load_plugins(group: str) -> tuple[Any, ...]:
    """Return the objects that installed packages name in a group, in the order of their names.

    A plugin that cannot be imported is logged and omitted.
    """
    loaded = (_load(plugin) for plugin in sorted(entry_points(group=group), key=lambda plugin: plugin.name))
    return tuple(plugin for plugin in loaded if plugin is not None)


def import_modules(package: str) -> None:
    """Import all modules of one of our own packages, so that they register what they provide."""
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


def _load(plugin: EntryPoint) -> Any:
    try:
        return plugin.load()
    except Exception:
        package = plugin.dist.name if plugin.dist else "an unknown package"
        log.exception("The plugin %s = %s of %s cannot be loaded.", plugin.name, plugin.value, package)
        return None
