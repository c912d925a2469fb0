"""The artifacts of a session as they were at one of its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService
from google.adk.events.event import Event
from google.genai import types
from typing_extensions import override


class HistoricalArtifactService(BaseArtifactService):
    """Loads artifacts in the version that the session had after its first `count` events.

    Versions come from the artifact deltas of the events. Artifacts without a delta, and those of the user, which other
    sessions write too, are loaded in their current version.
    """

    def __init__(self, service: BaseArtifactService, events: Sequence[Event], count: int) -> None:
        self._service = service
        self._versions = _artifact_versions(events)
        self._versions_then = _artifact_versions(events[:count])

    @override
    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Load an artifact; None if it does not exist, or did not exist at that event."""
        if version is None and filename in self._versions:
            if filename not in self._versions_then:
                return None
            version = self._versions_then[filename]
        return await self._service.load_artifact(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id, version=version
        )

    @override
    async def save_artifact(self, **arguments: Any) -> int:
        """Save an artifact in the current state."""
        return await self._service.save_artifact(**arguments)

    @override
    async def list_artifact_keys(self, **arguments: Any) -> list[str]:
        """List the current names."""
        return await self._service.list_artifact_keys(**arguments)

    @override
    async def delete_artifact(self, **arguments: Any) -> None:
        """Delete a current artifact."""
        await self._service.delete_artifact(**arguments)

    @override
    async def list_versions(self, **arguments: Any) -> list[int]:
        """List the current versions."""
        return await self._service.list_versions(**arguments)

    @override
    async def list_artifact_versions(self, **arguments: Any) -> list[ArtifactVersion]:
        """Describe the current versions."""
        return await self._service.list_artifact_versions(**arguments)

    @override
    async def get_artifact_version(self, **arguments: Any) -> ArtifactVersion | None:
        """Describe a current version."""
        return await self._service.get_artifact_version(**arguments)


def _artifact_versions(events: Sequence[Event]) -> dict[str, int]:
    """Return the last version of each artifact in the deltas of events, without those of the user."""
    versions: dict[str, int] = {}
    for event in events:
        versions |= event.actions.artifact_delta
    return {name: version for name, version in versions.items() if not name.startswith("user:")}
