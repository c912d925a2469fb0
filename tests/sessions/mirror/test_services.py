"""Session services selected by URI, and errors of invalid URIs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from google.adk.cli import service_registry
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from devui.runtime.agent_loading import AgentCode
from devui.runtime.config import RuntimeOptions
from devui.runtime.services import session_service
from sessions_app.store.errors import RuntimeUnavailable
from sessions_app.store.redaction import without_password

SERVICES = """
from google.adk.cli.service_registry import get_service_registry
from google.adk.sessions.in_memory_session_service import InMemorySessionService

get_service_registry().register_session_service("mine", lambda uri, **given: InMemorySessionService())
"""


def test_without_uri_sessions_are_in_the_store(tmp_path: Path):
    assert session_service(RuntimeOptions(), tmp_path) is None


def test_a_file_is_adks_sqlite_service(tmp_path: Path):
    options = RuntimeOptions(session_service_uri=f"sqlite:///{tmp_path}/adk.db")
    assert isinstance(session_service(options, tmp_path), SqliteSessionService)


def test_services_py_beside_the_agents_may_register_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "services", raising=False)
    (tmp_path / "clerk").mkdir()
    (tmp_path / "clerk" / "agent.py").write_text("root_agent = None\n")
    (tmp_path / "services.py").write_text(SERVICES)
    AgentCode(str(tmp_path), "clerk").load_services()
    sys.modules.pop("services", None)
    service = session_service(RuntimeOptions(session_service_uri="mine://here"), tmp_path)
    assert isinstance(service, InMemorySessionService)


def test_a_uri_that_names_nothing_is_refused_without_its_password(tmp_path: Path):
    with pytest.raises(RuntimeUnavailable) as refused:
        session_service(RuntimeOptions(session_service_uri="nothing://ann:secret@host/name"), tmp_path)
    assert "'nothing://ann@host/name'" in refused.value.message
    assert "secret" not in refused.value.message
    assert "--session_service_uri" in refused.value.hint


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("sqlite:////data/adk.db", "sqlite:////data/adk.db"),
        ("sqlite:///adk.db", "sqlite:///adk.db"),
        ("postgresql+asyncpg://ann:secret@db:5432/adk?ssl=1", "postgresql+asyncpg://ann@db:5432/adk"),
        ("postgresql://u:hun/ter2@h/x", "postgresql://u@h/x"),
        ("postgresql://u:hun#ter2@h/x", "postgresql://u@h/x"),
        ("postgresql://u:hun?ter2@h/x", "postgresql://u@h/x"),
        ("postgresql://u:hun[ter2@h/x", "postgresql://u@h/x"),
        ("http://h/x?user=a@b", "http://h/x"),
        ("agentengine://projects/p/locations/l/reasoningEngines/1", None),
        ("", ""),
    ],
)
def test_a_place_is_the_uri_without_password_and_query(uri: str, place: str | None):
    assert without_password(uri) == (uri if place is None else place)
