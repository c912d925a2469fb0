"""Interface to the runtime processes, independent of what starts them.

`devui` registers a provider when the server starts. Without one (tests, embedded in another project, a bare ASGI
server) every call raises `RuntimeUnavailable`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import quote, unquote

from sessions_app.quotas.quota_limits import QuotaLimits
from sessions_app.store.errors import RuntimeUnavailable

if TYPE_CHECKING:
    import httpx

Frame = dict[str, Any]
"""A message of a run's stream. `n` counts 1, 2, 3 … per run; `type` is one of

- `chunk`: author, branch, invocation_id, event_id, text, thought: text to append to the stream
- `stored`: seq, event_id, author, branch: an event was stored, chunks of its author and branch are superseded
- `status`: status: the run's row changed
- `end`: status: nothing follows
"""


PERSON_HEADER = "X-DevUI-Person"
LIMITS_HEADER = "X-DevUI-Limits"
"""Headers of a request to a runtime with the name of the person who sends it, percent-encoded, and the person's quotas
as JSON. Clients cannot set them.
"""

TRY_AGAIN_LATER = 1013
"""Close code of a live socket whose run is above a quota."""

REASON_BYTES = 123
"""Maximum length of a close reason (RFC 6455, 5.5)."""


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a request to a runtime: name and quotas of a person; without users the name is empty."""

    person: str = ""
    limits: Sequence[QuotaLimits] = ()

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self:
        """Return the sender that the headers of a request name."""
        values = {name.lower(): value for name, value in headers.items()}
        limits = json.loads(values.get(LIMITS_HEADER.lower(), "[]"))
        return cls(unquote(values.get(PERSON_HEADER.lower(), "")), [QuotaLimits(**limit) for limit in limits])

    def headers(self) -> dict[str, str]:
        """Return the headers that name the sender to a runtime."""
        limits = json.dumps([asdict(limit) for limit in self.limits])
        return {PERSON_HEADER: quote(self.person), LIMITS_HEADER: limits} if self.person else {}


NOBODY = Sender()
"""Sender of requests that start no run, and of all requests without users."""


def close_reason(why: str) -> str:
    """Return the text cut to the maximum length of a close reason."""
    return why.encode(errors="replace")[:REASON_BYTES].decode(errors="ignore")


class RuntimeSocket(Protocol):
    """An open socket to ADK's server in a runtime process.

    Attributes:
        closed: code and reason with which the server closed it; None while it is open.
    """

    closed: tuple[int, str] | None

    async def send(self, message: str | bytes) -> None:
        """Send a message. It is dropped if the socket is closed."""

    def messages(self) -> AsyncIterator[str | bytes]:
        """Yield the server's messages until it closes the socket.

        Raises:
            RuntimeUnavailable: the process died.
        """


class RuntimeClient(Protocol):
    """The runtime process of one app."""

    async def start_run(self, run_id: str) -> None:
        """Send a queued run to the process; its row holds the request. A run that has ended is left alone.

        Raises:
            ProcessEnded: the process ended before it had taken the run: the next one may take it.
            DevUIError: no process can take it.
        """

    async def cancel_run(self, run_id: str) -> None:
        """Cancel a run and return when its row has a final status. An unresponsive process is killed."""

    def stream(self, run_id: str, after: int = 0) -> AsyncIterator[Frame]:
        """Yield a run's frames with n > `after`, first from memory, then live, until `end`."""

    def open(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Open a streamed request to ADK's server in the process.

        Raises:
            RuntimeUnavailable: the process cannot be reached or died before it answered.
        """

    def open_socket(
        self, path: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[RuntimeSocket]:
        """Open a socket to ADK's server in the process.

        Raises:
            BadInput: the server refuses the socket.
            RuntimeUnavailable: the process cannot be reached or died before it answered.
        """

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call a `/devui/…` endpoint of the process and return its JSON.

        Raises:
            DevUIError: with the status, message and hint of the process's response.
        """


class RuntimeProvider(Protocol):
    """Finds or starts the runtime process of an app."""

    def apps(self) -> list[str]:
        """Return the sorted names of the apps that can be run."""

    async def client(self, app_name: str) -> RuntimeClient:
        """Return the app's runtime, started if needed.

        Raises:
            NotFound: no such app.
            RuntimeUnavailable: the process does not start.
        """

    async def end_process(self, runtime_id: str, why: str) -> bool:
        """Kill an unresponsive process; its runs become crashed. Return False if this server does not own it."""


_provider: RuntimeProvider | None = None


def register(provider: RuntimeProvider | None) -> None:
    """Set the provider that pages and the API use; None removes it."""
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
