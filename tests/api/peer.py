"""ADK's own server: in memory as the oracle, or over DevUI's store in a separate process as the upstream."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from sessions_app.store.errors import NotFound, RuntimeUnavailable

START_S = 60


def adk_server(agents_dir: Path, session_service: Any = None, artifact_service: Any = None) -> Any:
    """Return the FastAPI application of ADK's development server."""
    from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
    from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
    from google.adk.cli.dev_server import DevServer
    from google.adk.cli.utils.agent_loader import AgentLoader
    from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager
    from google.adk.evaluation.local_eval_sets_manager import LocalEvalSetsManager
    from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
    from google.adk.sessions.in_memory_session_service import InMemorySessionService

    server = DevServer(
        agent_loader=AgentLoader(str(agents_dir)),
        session_service=session_service or InMemorySessionService(),
        memory_service=InMemoryMemoryService(),
        artifact_service=artifact_service or InMemoryArtifactService(),
        credential_service=InMemoryCredentialService(),
        eval_sets_manager=LocalEvalSetsManager(agents_dir=str(agents_dir)),
        eval_set_results_manager=LocalEvalSetResultsManager(agents_dir=str(agents_dir)),
        agents_dir=str(agents_dir),
    )
    return server.get_fast_api_app()


@dataclass
class Peer:
    """ADK's server in a process of its own: what a runtime process is to the web."""

    socket: Path
    process: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Return when it answers."""
        transport = httpx.HTTPTransport(uds=str(self.socket))
        with httpx.Client(transport=transport, base_url="http://peer") as client:
            for _ in range(START_S * 20):
                try:
                    client.get("/health").raise_for_status()
                    return
                except httpx.TransportError:
                    assert self.process.poll() is None, "ADK's server ended while it started"
                    time.sleep(0.05)
        raise TimeoutError("ADK's server did not start")

    @asynccontextmanager
    async def open(self, method: str, path: str, *, headers: Mapping[str, str], content: bytes) -> Any:
        """Open a streamed request, as `RuntimeClient.open` does."""
        transport = httpx.AsyncHTTPTransport(uds=str(self.socket))
        async with httpx.AsyncClient(transport=transport, base_url="http://peer", timeout=None) as client:
            request = client.build_request(method, path, headers=headers, content=content)
            try:
                response = await client.send(request, stream=True)
            except httpx.TransportError as error:
                raise RuntimeUnavailable("The process ended.", hint="Send the message again.") from error
            try:
                yield response
            finally:
                await response.aclose()


@dataclass
class PeerProvider:
    """Finds one server for every app it knows."""

    peer: Peer
    names: list[str]

    def apps(self) -> list[str]:
        """Return the names of the apps."""
        return self.names

    async def client(self, app_name: str) -> Peer:
        """Return the server, as `RuntimeProvider.client` does."""
        if app_name not in self.names:
            raise NotFound(f"No agent {app_name!r}.", hint="GET /list-apps names the apps.")
        return self.peer


def main(socket_path: str, agents_dir: str) -> None:
    """Serve the agents over DevUI's store on a unix socket."""
    import devui

    devui.setup(migrate=False)
    from sessions_app.adk import DjangoArtifactService, DjangoSessionService

    app = adk_server(Path(agents_dir), DjangoSessionService(), DjangoArtifactService())
    uvicorn.run(app, uds=socket_path, log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
