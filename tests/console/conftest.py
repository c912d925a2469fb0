"""What tests of the console share with those of runs."""

from tests.runtime.conftest import module_store

__all__ = ["module_store"]
