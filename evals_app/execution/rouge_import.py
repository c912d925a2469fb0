"""Import of `rouge_score`, which scores ADK's `response_match_score`, without most of what it imports.

`rouge_score` imports `nltk` for a Porter stemmer, and `numpy` for statistics that the metric does not need. `nltk`
imports all of its modules, and scikit-learn, scipy and pandas where they are installed: up to two seconds of each run.
Therefore both packages are deferred while `rouge_score` is imported: only the modules of the stemmer are loaded.
Afterwards `import nltk` and `import numpy` import the real packages, as if nothing had happened.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

STEMMER_PACKAGES = ("nltk", "nltk.stem")
"""Packages in which `rouge_score` finds the stemmer, parents first."""

DEFERRED_PACKAGES = ("numpy", *STEMMER_PACKAGES)


class DeferredPackage(ModuleType):
    """Takes the place of a package for a while. Its names are those of the real package, which they import."""

    def __getattr__(self, name: str) -> Any:
        """Return a name of the real package.

        Raises:
            AttributeError: the real package is still deferred.
        """
        if sys.modules.get(self.__name__) is self:
            raise AttributeError(f"{self.__name__} is deferred, and has no {name!r}.")
        return getattr(importlib.import_module(self.__name__), name)


def import_rouge_score() -> None:
    """Import `rouge_score` with the stemmer only; if this release needs more, with everything.

    Raises:
        ImportError: a package is not installed.
    """
    if "rouge_score" in sys.modules:
        return
    try:
        with _deferred_packages():
            importlib.import_module("rouge_score.rouge_scorer")
    except Exception:  # other releases may fail in any way
        _forget_modules("rouge_score")
        importlib.import_module("rouge_score.rouge_scorer")


@contextmanager
def _deferred_packages() -> Iterator[None]:
    """Defer the packages that are not imported yet."""
    names = [name for name in DEFERRED_PACKAGES if name.partition(".")[0] not in sys.modules]
    try:
        for name in names:
            package = DeferredPackage(name)
            if name in STEMMER_PACKAGES and (spec := find_spec(name)):
                package.__path__ = spec.submodule_search_locations or []
            sys.modules[name] = package
        yield
    finally:
        for name in names:
            _forget_modules(name)


def _forget_modules(package: str) -> None:
    """Remove a package and its modules from the imported modules."""
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
