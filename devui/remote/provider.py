"""Runtimes of this web process: local processes and remote servers."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from devui.remote.address import RemoteAddress
from devui.supervisor import Supervisor
from devui.supervisor.frame_feeds import FrameFeeds
from devui.supervisor.supervisor import STOPPED
from sessions_app.agents import remotes
from sessions_app.runs.runtime_client import RuntimeClient
from sessions_app.store.errors import NotFound, RuntimeUnavailable

if TYPE_CHECKING:
    from devui.remote.server import RemoteServer


class Runtimes:
    """Finds the runtime of an app (`sessions_app.runs.runtime_client.RuntimeProvider`). An async context manager."""

    def __init__(self, supervisor: Supervisor, addresses: Iterable[RemoteAddress] = ()) -> None:
        self.supervisor = supervisor
        self.servers = {address.name: _make_server(address) for address in addresses}
        self._feeds = FrameFeeds(lambda run: None)

    async def __aenter__(self) -> Self:
        await self.supervisor.__aenter__()
        for server in self.servers.values():
            await server.start(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.supervisor.refuse_work()
        for server in self.servers.values():
            await server.close(STOPPED)
        await self._feeds.close()
        remotes.clear()
        await self.supervisor.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background until the server ends."""
        self.supervisor.spawn(work)

    def apps(self) -> list[str]:
        """Return the names of the apps that can be run: sorted local ones, then sorted remote ones."""
        return [*self.supervisor.apps(), *remotes.list_app_names(remotes.all_remotes())]

    async def client(self, app_name: str) -> RuntimeClient:
        """Return the client of an app's runtime."""
        remote = remotes.find_remote(app_name)
        if remote is None:
            return await self.supervisor.client(app_name)
        self.supervisor.check_open()
        server = self.servers[remote.name]
        if app_name not in server.remote.app_names:
            current = await server.check()
            if app_name not in current.app_names:
                if current.problem:
                    raise RuntimeUnavailable(current.problem)
                raise NotFound(
                    f"{current.url} has no app {remotes.upstream_app_name(app_name)!r}.",
                    hint="GET /list-apps names the apps.",
                )
        from devui.remote.client import RemoteClient

        return RemoteClient(server, app_name, self._feeds)

    async def end_process(self, runtime_id: str, why: str) -> bool:
        """End a process that does not react. Return False if it is not this server's; remote ones are never ended."""
        return await self.supervisor.end_process(runtime_id, why)


def _make_server(address: RemoteAddress) -> RemoteServer:
    from devui.remote.server import RemoteServer  # imported late: most installations have no remote server

    return RemoteServer(address)
