"""Stores of tests of trends."""

from __future__ import annotations

from tests.problems.conftest import store  # noqa: F401 - a fixture
