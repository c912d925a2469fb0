"""A PostgreSQL server of its own for each test of the deployment."""

from __future__ import annotations

from tests.postgres import cluster

__all__ = ["cluster"]
