"""Formats of stores: importers of ADK's session services in its languages, of session JSON and of DevUI's exports.

Each format is a module of this package. An installed package adds one by an entry point of the group
`devui.importers`, which names an `Importer` or a module that has one; `examples/plugin/` has one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from sessions_app import plugins
from sessions_app.store.errors import DevUIError
from sessions_app.store.scopes import replace_surrogates
from sessions_app.store.short_texts import truncate
from sessions_app.transfer.readers.importer import Importer
from sessions_app.transfer.readers.reader_process import ReadingFailed

log = logging.getLogger(__name__)


_IMPORTERS = plugins.Registry(Importer, plugins.IMPORTERS, lambda: plugins.import_modules(__name__))


def all_importers() -> list[Importer]:
    """Return the importers of installed packages, then DevUI's own; fallbacks last."""
    importers = [*_IMPORTERS.added(), *_IMPORTERS.own()]
    return sorted(importers, key=lambda importer: importer.is_fallback)


def is_plugin(importer: Importer) -> bool:
    """Tell whether an installed package added an importer."""
    return not any(importer is own_importer for own_importer in _IMPORTERS.own())


def find_importer(matches: Callable[[Importer], bool]) -> tuple[Importer | None, list[str]]:
    """Return the first importer that matches, and descriptions of the plugins' importers that failed."""
    failures: list[str] = []
    for importer in all_importers():
        try:
            if matches(importer):
                return importer, failures
        except plugins.FAILURES as error:
            if isinstance(error, DevUIError) or not is_plugin(importer):
                raise
            log.exception("The importer %r failed.", importer.name)
            failures.append(describe_failure(importer.name, error))
    return None, failures


def describe_failure(name: str, error: BaseException) -> str:
    """Return a sentence about an importer that raised."""
    reason = str(error) if isinstance(error, ReadingFailed) else f"{type(error).__name__}: {error}"
    return truncate(replace_surrogates(f"The importer {name!r} failed: {reason}"), 500)
