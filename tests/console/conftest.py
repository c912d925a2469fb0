"""Fixtures that the console's tests share with those of runs and pages."""

from tests.pages.conftest import agents_dir
from tests.runtime.conftest import module_store, store

__all__ = ["agents_dir", "module_store", "store"]
