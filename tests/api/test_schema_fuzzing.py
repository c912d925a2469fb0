"""Requests generated from the schemas: none fails in the server, and every response is documented."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.peer import adk_server
from tests.e2e.own_server import copied_agents, serving
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

EXAMPLES = 8
"""Requests of each operation: there are some hundred operations."""

LEFT_OUT = ("/tests/", "/run_eval", "/run", "/agent-identity/", "/evals/runs")
"""What runs agents, or pytest, or needs Google's cloud: no request of these is a quick one."""

OURS = {"app_name": "weather", "user_id": "ann", "session_id": "s1", "app": "weather", "session": 1}
"""What is there, so that requests come further than to a refusal."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a session."""
    with serving(copied_agents(tmp_path_factory.mktemp("any"))) as where:
        body = {"sessionId": "s1", "state": {"n": 1, "user:tier": "gold", "app:x": [1]}}
        response = httpx.post(
            f"{where}/apps/weather/users/ann/sessions", json=body, trust_env=False, timeout=PATIENCE_S
        )
        response.raise_for_status()
        yield where


def operations(schema: Any) -> list[Any]:
    schema.config.output.sanitization.update(enabled=False)  # a fault is told with the request that shows it
    all_operations = [result.ok() for result in schema.get_all_operations()]
    return [operation for operation in all_operations if not any(part in operation.path for part in LEFT_OUT)]


def ask(operation: Any, checks: list[Any], faults: list[str]) -> None:
    """Send some requests of an operation; note what is wrong with their answers."""

    @given(case=operation.as_strategy())
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    def requests(case: Any) -> None:
        path = case.path_parameters or {}
        for name in path:
            if name in OURS and len(str(path[name])) % 2:
                path[name] = OURS[name]
        try:
            case.call_and_validate(checks=checks, timeout=600)
        except Exception as error:
            faults.append(f"{operation.method.upper()} {operation.path}: {error}")

    requests()


def test_own_api_conforms_to_its_schema(address):
    schema = schemathesis.openapi.from_url(f"{address}/api/v1/openapi.json")
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    faults: list[str] = []
    for operation in operations(schema):
        ask(operation, checks, faults)
    assert not faults, "\n\n".join(faults)


def test_adks_paths_never_fail(address, tmp_path: Path):
    schema = schemathesis.openapi.from_dict(adk_server(tmp_path).openapi())
    schema.config.update(base_url=address)
    faults: list[str] = []
    for operation in operations(schema):
        ask(operation, [not_a_server_error], faults)
    assert not faults, "\n\n".join(faults)
