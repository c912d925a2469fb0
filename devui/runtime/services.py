"""ADK's services over DevUI's store, or those that ADK's URIs name, if they can be created (`RuntimeUnavailable`)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
from google.adk.cli.utils.service_factory import (
    create_artifact_service_from_options,
    create_memory_service_from_options,
    create_session_service_from_options,
)
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.base_session_service import BaseSessionService

from devui.runtime.config import RuntimeOptions
from sessions_app.adk import DjangoArtifactService, DjangoMemoryService
from sessions_app.store.errors import RuntimeUnavailable
from sessions_app.store.redaction import without_password


def session_service(options: RuntimeOptions, agents_root: Path) -> BaseSessionService | None:
    """Return the session service that a URI names; None for DevUI's store."""
    uri = options.session_service_uri
    if not uri:
        return None
    hint = (
        "Databases need SQLAlchemy (pip install 'google-adk[db]') and a driver; a scheme of your own is registered by"
        " services.py beside the agents."
    )
    with _explain_failure("session", uri, hint):
        return create_session_service_from_options(base_dir=agents_root, session_service_uri=uri)


def artifact_service(options: RuntimeOptions, agents_root: Path) -> BaseArtifactService:
    """Return the artifact service that a URI names, by default the one over DevUI's store."""
    uri = options.artifact_service_uri
    if not uri:
        return DjangoArtifactService()
    with _explain_failure("artifact", uri, "ADK knows gs://…, file://… and memory://."):
        return create_artifact_service_from_options(
            base_dir=agents_root, artifact_service_uri=uri, strict_uri=True
        )


def memory_service(options: RuntimeOptions, agents_root: Path) -> BaseMemoryService:
    """Return the memory service that a URI names, by default the one over DevUI's store."""
    uri = options.memory_service_uri
    if not uri:
        return DjangoMemoryService()
    with _explain_failure("memory", uri, "ADK knows rag://…, agentengine://… and memory://."):
        return create_memory_service_from_options(base_dir=agents_root, memory_service_uri=uri)


@contextmanager
def _explain_failure(kind: str, uri: str, hint: str) -> Iterator[None]:
    """Turn an error of creating a service into one that names the flag."""
    try:
        yield
    except Exception as error:
        raise RuntimeUnavailable(
            f"The {kind} service {without_password(uri)!r} cannot be created: {type(error).__name__}: {error}",
            hint=f"Correct --{kind}_service_uri. {hint}",
        ) from error


def credential_service() -> BaseCredentialService:
    """Return ADK's in-memory credential service, as `adk web` uses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ADK calls its own default experimental
        return InMemoryCredentialService()
