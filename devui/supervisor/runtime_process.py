"""A runtime process from the view of the web process that started it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from devui.runtime.config import RuntimeConfig, RuntimeOptions
from devui.supervisor.agent_user import AgentUser
from devui.supervisor.listeners import Listener
from devui.supervisor.output import ProcessOutput
from devui.supervisor.upstream import Upstream
from sessions_app.agent_processes import processes
from sessions_app.store.errors import RuntimeUnavailable

REFUSAL_STATUS = 2
"""Exit status of `manage.py runtime` when its configuration cannot be used."""

SERVER_VARIABLES = (
    "DEVUI_SECRET_KEY",
    "DEVUI_USERS",
    "DEVUI_USER_HEADER",
    "DEVUI_OIDC_",
    "DEVUI_AGENT_USER",
    "DEVUI_AGENT_DATABASE_URL",
)
"""Prefixes of the variables that only the server uses: agents do not get them."""

STORE_PASSWORD = "PGPASSWORD"  # noqa: S105 - the name of a variable
"""Variable with the server's password of the store, if DATABASE_URL has none. Agents of another user do not get it."""

REFUSAL_PREFIX = "CommandError: "
"""Beginning of the output line with the reason."""

RETRY_HINT = "Send it again: a new process will be started. The server's log has the output of the old one."
CONFIG_HINT = "Correct the setting and restart the server."


class RuntimeChild:
    """A runtime process: its config, its socket, its output and its end.

    Attributes:
        upstream: its socket.
        ready: set when the process has answered, even if its agent could not be loaded.
        exited: set when the process has ended and the ends of its runs are recorded.
        settled: set when it is ready, has exited, or will be replaced.
        card_before: time of its agent's card before the start; None if there was no card.
        code_version: hash of the code at its start; of the loaded code, once it is ready.
        is_mixed: the code changed while it was loaded.
        mixed_before: number of consecutive processes before it that were replaced for that reason.
        output: its output.
        end_reason: why the web process ended it; empty if it ended by itself.
        unused: set while no request is in progress.
        is_suspect: a request failed although the process runs: its socket may be closed.
        silent_since: monotonic time since which it does not answer; None while it does.
    """

    def __init__(
        self, config: RuntimeConfig, listener: Listener, lifeline: int, output: ProcessOutput
    ) -> None:
        self.config = config
        self.upstream = Upstream("127.0.0.1", config.token, str(listener.path))
        self.ready = asyncio.Event()
        self.exited = asyncio.Event()
        self.settled = asyncio.Event()
        self.code_version = config.code_version
        self.is_mixed = False
        self.mixed_before = 0
        self.end_reason = ""
        self.unused = asyncio.Event()
        self.unused.set()
        self.card_before: float | None = None
        self.used_at = time.monotonic()
        self.is_suspect = False
        self.silent_since: float | None = None
        self.output = output
        self._listener = listener
        self._lifeline: int | None = lifeline
        self._requests = 0
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    async def spawn(
        cls,
        app_name: str,
        agents_dir: Path,
        code_version: str,
        options: RuntimeOptions,
        listener: Listener,
        environment: Mapping[str, str],
        user: AgentUser | None,
        output: ProcessOutput,
    ) -> RuntimeChild:
        """Start a process for an app. It answers on the listener as soon as it has loaded its agent.

        Raises:
            OSError: the system cannot start a process.
        """
        config = RuntimeConfig(
            app_name, str(agents_dir), uuid.uuid4().hex, code_version, secrets.token_urlsafe(32), options
        )
        life, lifeline = os.pipe()
        child = cls(config, listener, lifeline, output)
        try:
            os.write(lifeline, config.to_line())
            child._process = await _start_process(
                app_name, listener.socket.fileno(), life, output.fd, environment, user
            )
        except BaseException:
            output.close()
            await child.close()
            raise
        finally:
            os.close(life)
            listener.close()
        output.read()
        return child

    @property
    def id(self) -> str:
        """Primary key of its `RuntimeProcess`."""
        return self.config.runtime_id

    @property
    def app_name(self) -> str:
        """The app whose agents it runs."""
        return self.config.app_name

    @property
    def pid(self) -> int:
        """Process id."""
        return self._spawned_process.pid

    @property
    def _spawned_process(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError("The process was not started.")
        return self._process

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Count a request, so that the process is not ended as idle meanwhile."""
        self._requests += 1
        self.unused.clear()
        try:
            yield
        finally:
            self._requests -= 1
            self.used_at = time.monotonic()
            if not self._requests:
                self.unused.set()

    async def wait(self) -> None:
        """Wait until the process has ended, then kill the rest of its process group."""
        await self._spawned_process.wait()
        self._kill_group()

    @property
    def is_alive(self) -> bool:
        """Tell whether the process is running."""
        return self._spawned_process.returncode is None

    @property
    def exited_cleanly(self) -> bool:
        """Tell whether the process ended on request."""
        return bool(self.end_reason) or self._spawned_process.returncode == 0

    @property
    def was_killed(self) -> bool:
        """Tell whether a foreign signal ended the process: another process may succeed."""
        code = self._spawned_process.returncode
        return not self.end_reason and code is not None and code < 0

    def describe_end(self) -> str:
        """Return a sentence about how the process ended."""
        if self.end_reason:
            return self.end_reason
        if self.refusal:
            return f"The process of agent {self.app_name!r} cannot run: {self.refusal}"
        return f"The process of agent {self.app_name!r} ended by itself ({self.how_it_ended})."

    def explain_silence(self) -> RuntimeUnavailable:
        """Return the error that says why the process does not answer."""
        if self.is_alive:
            self.is_suspect = True
            return RuntimeUnavailable(
                f"The process of agent {self.app_name!r} does not answer.", hint=RETRY_HINT
            )
        return RuntimeUnavailable(self.describe_end(), hint=CONFIG_HINT if self.refusal else RETRY_HINT)

    @property
    def refusal(self) -> str:
        """Reason with which the process refused its configuration, such as a flag's value; empty if it did not."""
        if self.ready.is_set() or self._spawned_process.returncode != REFUSAL_STATUS:
            return ""
        refusals = [line for line in self.output.last_lines if line.startswith(REFUSAL_PREFIX)]
        return refusals[-1].removeprefix(REFUSAL_PREFIX) if refusals else ""

    @property
    def how_it_ended(self) -> str:
        """Exit status or signal of the process, in words."""
        code = self._spawned_process.returncode
        return "it runs" if code is None else processes.describe_exit(code)

    async def accepts_connections(self) -> bool:
        """Tell whether it still has its socket, which agents' code may close. A blocked process has it."""
        return await self.upstream.accepts_connections()

    def request_exit(self, reason: str) -> None:
        """Ask the process to cancel its runs and exit, by closing its lifeline."""
        self.end_reason = self.end_reason or reason
        self._close_lifeline()

    def kill(self, reason: str) -> None:
        """Kill the process and all that it started."""
        self.end_reason = self.end_reason or reason
        if self.is_alive:
            self._kill_group()

    async def close(self) -> None:
        """Release the resources of an ended process."""
        self._close_lifeline()
        self._listener.remove()
        await self.upstream.http.aclose()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _close_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


async def _start_process(
    app_name: str,
    listening: int,
    life: int,
    output: int,
    environment: Mapping[str, str],
    user: AgentUser | None,
) -> asyncio.subprocess.Process:
    """Start the program of a runtime with the inherited file descriptors, in its own session."""
    variables = {**environment, **(user.variables if user else {}), "PYTHONUNBUFFERED": "1"}
    handed_down = ["--fd", str(listening), "--lifeline", str(life)]
    return await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "devui", "runtime", *handed_down, "--", app_name],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(listening, life),
        start_new_session=True,
        env={**_inherited_environment(user), **variables},
        user=user.uid if user else None,
        group=user.group if user else None,
        extra_groups=user.groups if user else None,
    )


def _inherited_environment(user: AgentUser | None) -> dict[str, str]:
    """Return the environment of this process without the variables that agents do not get."""
    omitted = (*SERVER_VARIABLES, STORE_PASSWORD) if user else SERVER_VARIABLES
    return {name: value for name, value in os.environ.items() if not name.startswith(omitted)}
