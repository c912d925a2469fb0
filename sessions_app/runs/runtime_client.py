"""How pages and the API reach the processes that run agents, without knowing who starts them.

The composing room registers a provider when the server starts; without one (tests, a foreign project, a bare
ASGI server) every call says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from sessions_app.errors import RuntimeUnavailable

if TYPE_CHECKING:
    import httpx

Frame = dict[str, Any]
"""One message of a run's stream. `n` counts 1, 2, 3 … per run; `type` is one of

- `chunk`: author, branch, invocation_id, event_id, text, thought: text to add to what is being streamed
- `stored`: seq, event_id, author, branch: an event was stored, chunks of its author and branch are superseded
- `status`: status: the run's row changed
- `end`: status: nothing follows
"""


REASON_BYTES = 123
"""Longest reason that a close can carry (RFC 6455, 5.5)."""


def close_reason(why: str) -> str:
    """Return as much of a text as the close of a socket can carry."""
    return why.encode(errors="replace")[:REASON_BYTES].decode(errors="ignore")


class RuntimeSocket(Protocol):
    """An open socket to ADK's own server in a runtime process.

    Attributes:
        closed: code and reason by which the server closed it; None before.
    """

    closed: tuple[int, str] | None

    async def send(self, message: str | bytes) -> None:
        """Send a message. One to a socket that is closed is lost."""

    def messages(self) -> AsyncIterator[str | bytes]:
        """Yield what the server sends until it closes the socket.

        Raises:
            RuntimeUnavailable: the process died.
        """


class RuntimeClient(Protocol):
    """The runtime process of one app."""

    async def start_run(self, run_id: str) -> None:
        """Hand over a queued run; its row says what to do.

        Raises:
            RuntimeUnavailable: the process cannot take it.
        """

    async def cancel_run(self, run_id: str) -> None:
        """Cancel a run; a process that does not react is ended. Returns when the row says how it ended."""

    def stream(self, run_id: str, after: int = 0) -> AsyncIterator[Frame]:
        """Yield a run's frames with n > `after`, from memory and then as they come, until `end`."""

    def open(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Open a streamed request to ADK's own server in the process.

        Raises:
            RuntimeUnavailable: the process cannot be reached or died before it answered.
        """

    def open_socket(self, path: str) -> AbstractAsyncContextManager[RuntimeSocket]:
        """Open a socket to ADK's own server in the process.

        Raises:
            BadInput: the server refuses it.
            RuntimeUnavailable: the process cannot be reached or died before it answered.
        """

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call one of the process's `/devui/…` endpoints and return its JSON.

        Raises:
            DevUIError: with the status, message and hint the process answered.
        """


class RuntimeProvider(Protocol):
    """Finds or starts the runtime process of an app."""

    def apps(self) -> list[str]:
        """Return the names of the apps that can be run, sorted."""

    async def client(self, app_name: str) -> RuntimeClient:
        """Return the app's runtime, started if need be.

        Raises:
            NotFound: no such app.
            RuntimeUnavailable: the process could not be started.
        """

    async def end_process(self, runtime_id: str, why: str) -> bool:
        """End a process that does not react; what it runs has crashed. False: it is none of this server's."""


_provider: RuntimeProvider | None = None


def register(provider: RuntimeProvider | None) -> None:
    """Make a provider the one that pages and the API use; None takes it away."""
    global _provider
    _provider = provider


def provider() -> RuntimeProvider:
    """Return the registered provider.

    Raises:
        RuntimeUnavailable: this process runs no agents.
    """
    if _provider is None:
        raise RuntimeUnavailable(
            "This process runs no agents.", hint="Start the server by `python manage.py web AGENTS_DIR`."
        )
    return _provider
