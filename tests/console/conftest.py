"""What tests of the console share with those of runs and of pages."""

from tests.pages.conftest import agents_dir
from tests.runtime.conftest import module_store, store

__all__ = ["agents_dir", "module_store", "store"]
