"""Programs that some tests need: without them tests are skipped, or fail if CI is set."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test because of what is missing, or fail it where everything should be there."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} (with CI set that is a failure)", pytrace=False)
    pytest.skip(what)
