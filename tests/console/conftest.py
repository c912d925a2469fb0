"""Fixtures that the console's tests share with those of runs and pages."""

from tests.pages.conftest import agents_dir
from tests.runtime.conftest import store

__all__ = ["agents_dir", "store"]
