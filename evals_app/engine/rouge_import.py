"""Fast import of `rouge_score`, which imports all of nltk for one stemmer: a fifth of a second."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any


def import_scorer() -> None:
    """Import the scorer with empty packages in place of nltk's, which are removed again afterwards.

    Use it in a process that has not loaded an agent: a later import of nltk loads the complete package. If the packages
    differ from the expected ones, the scorer is imported as usual.
    """
    spec = importlib.util.find_spec("nltk") if "nltk" not in sys.modules else None
    if spec is not None and spec.submodule_search_locations:
        try:
            _import_without_nltk(next(iter(spec.submodule_search_locations)))
        except ImportError:
            _unload_rouge()
    importlib.import_module("rouge_score.rouge_scorer")


def _import_without_nltk(folder: str) -> None:
    for name, path in (("nltk", folder), ("nltk.stem", f"{folder}/stem")):
        bare = ModuleType(name)
        bare.__path__ = [path]
        sys.modules[name] = bare
    try:
        scorer = importlib.import_module("rouge_score.rouge_scorer")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "nltk"]:
            del sys.modules[name]
    vars(scorer)["nltk"] = _LazyModule("nltk")  # splits sentences, for those who ask for it


def _unload_rouge() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rouge_score"]:
        del sys.modules[name]


class _LazyModule(ModuleType):
    """A module that is imported when one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)
