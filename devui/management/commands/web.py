"""`manage.py web [AGENTS_DIR]`: DevUI's counterpart of `adk web`."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from devui.config import environment, hosts
from devui.serving import flags
from devui.web import origins
from sessions_app.agents.folder import AgentsFolder, open_folder
from sessions_app.management.arguments import parse_location
from sessions_app.runs.runtime_client import RuntimeProvider
from sessions_app.sessions import storage_location
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.redaction import without_password

if TYPE_CHECKING:
    from devui.serving.server import ServedRuntimes

log = logging.getLogger(__name__)


class Command(BaseCommand):
    """Migrate the store and serve an agents folder, to this machine or with a login."""

    help = "Serve DevUI for a folder of agents. The flags are those of `adk web`."
    requires_system_checks = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Give `-v` the meaning that it has in `adk web`."""
        return super().create_parser(
            prog_name,
            subcommand,
            conflict_handler="resolve",
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            **kwargs,
        )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the folder, the address, and the flags of `adk web`."""
        parser.add_argument(
            "agents_dir",
            nargs="?",
            type=parse_location,
            help="Folder whose subfolders are agents, or the folder of one agent. Default: DEVUI_AGENTS_DIR, else the"
            " working folder; with --runtime, no folder.",
        )
        parser.add_argument(
            "--runtime",
            metavar="NAME=URL",
            action="append",
            default=[],
            help="A running ADK API server of any language, whose agents appear as AGENT@NAME. Can be repeated.",
        )
        parser.add_argument(
            "--host",
            default="127.0.0.1",
            help="Address to serve on. Addresses other than loopback require a login: manage.py login.",
        )
        parser.add_argument("--port", type=int, default=8000, help="Port to serve on; 0 selects a free one.")
        parser.add_argument(
            "--demo",
            metavar="FILE",
            help="Create the sessions of FILE, and the eval runs beside it, when the store is empty.",
        )
        flags.add_flags(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until a signal. Errors are shown in one line, with exit status 2."""
        try:
            self._serve_pages(options)
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}".strip(), returncode=2) from error
        except ImproperlyConfigured as error:
            raise CommandError(str(error), returncode=2) from error

    def _serve_pages(self, options: dict[str, Any]) -> None:
        from devui.serving import server

        options["runtime"] = [*options["runtime"], *environment.pop_list("DEVUI_RUNTIMES")]
        origins.allowed_origins()  # refuse invalid patterns now instead of at the first request
        sources = _worker_agents(options) if settings.DEVUI_ENGINE else _own_agents(options)
        has_login = self._has_login()
        listener = server.open_listener(options["host"], options["port"], has_login=has_login)
        if not hosts.is_loopback(options["host"]):
            self._open_to_network(options["host"])
        settings.DEVUI_AGENTS_DIR = str(sources.folder.path) if sources.folder else ""
        settings.DEVUI_SESSION_SERVICE = without_password(flags.session_service_uri(options))
        settings.DEVUI_ARTIFACT_SERVICE = without_password(options["artifact_service_uri"] or "")
        settings.DEVUI_MEMORY_SERVICE = without_password(options["memory_service_uri"] or "")
        for line in flags.unused_flag_notes(options):
            self.stderr.write(line)
        if where := storage_location.find_session_owner():
            self.stderr.write(
                f"Agents keep their sessions in {where}; {storage_location.store_location()} has a copy."
            )
        if not storage_location.store_location().survives_restart:
            self.stderr.write("Sessions are in a temporary store that is removed when the server ends.")
        self._print_address(options["host"], listener.getsockname()[1], sources.description)
        server.serve(
            listener,
            sources.runtimes,
            access_log=options["verbose"],
            first=sources.first,
            after_first_page=sources.after_first_page,
        )

    def _has_login(self) -> bool:
        """Prepare the store, and tell whether anybody can sign in. If no user can, print how to change that."""
        from devui.accounts import login_file, owner, users
        from devui.serving import server

        server.prepare_store()
        login_file.import_file()
        has_login = users.has_admin() if settings.DEVUI_USERS else owner.exists()
        connection.close()
        if settings.DEVUI_USERS and not has_login:
            self.stderr.write(
                "Nobody can sign in yet. Create an admin: python manage.py createuser NAME --role admin"
            )
        return has_login

    def _open_to_network(self, host: str) -> None:
        """Require the login from now on, and print the remaining risks."""
        settings.DEVUI_LOGIN_REQUIRED = True
        if host not in hosts.EVERY_ADDRESS:
            settings.ALLOWED_HOSTS.append(hosts.in_brackets(host))
        self.stderr.write(
            f"--host {host}: the password and all other data are sent as plain HTTP: use a proxy with TLS, or a"
            f" trusted network. The server answers to {', '.join(settings.ALLOWED_HOSTS)}; DEVUI_ALLOWED_HOSTS"
            " names more."
        )

    def _print_address(self, host: str, port: int, description: str) -> None:
        self.stdout.write(
            f"DevUI serves {description} on http://{hosts.in_brackets(host)}:{port}/ (Ctrl-C ends it)"
        )
        self.stdout.flush()


@dataclass(frozen=True, slots=True)
class AgentSources:
    """Location of the agents of a server.

    Attributes:
        folder: the agents folder that pages read, if any.
        description: the agents, in words.
        first: what to do when the server is up.
        after_first_page: what to do after the first page.
    """

    runtimes: ServedRuntimes
    folder: AgentsFolder | None
    description: str
    first: Callable[[], Coroutine[Any, Any, None]] | None = None
    after_first_page: Callable[[], Coroutine[Any, Any, None]] | None = None


def _own_agents(options: dict[str, Any]) -> AgentSources:
    """Return the agents that this server runs in processes of its own, and those of remote servers."""
    from devui.remote import RemoteAddress, Runtimes
    from devui.serving.local_agents import create_supervisor
    from devui.serving.preloading import preload_after_responses

    addresses = RemoteAddress.read_all(options["runtime"])
    supervisor = create_supervisor(_read_folder_option(options), flags.runtime_options(options))
    fill_store = None
    if options["demo"]:
        from devui.serving import demo

        demo_file = Path(options["demo"])
        fill_store = partial(demo.fill_store, demo_file, demo.read_demo(demo_file), supervisor)
    names = supervisor.apps()
    agent_count = f"{len(names)} agents" if len(names) != 1 else "1 agent"
    local = [f"{agent_count} of {supervisor.folder.path}"] if supervisor.folder else []
    remote = [f"those of {address.name} at {address.url}" for address in addresses]
    first = partial(_prepare_sessions, supervisor, fill_store)
    is_preloading = environment.read_flag("DEVUI_RUNTIME_PRELOAD", default=True)
    return AgentSources(
        Runtimes(supervisor, addresses),
        supervisor.folder,
        ", ".join(local + remote),
        first,
        partial(preload_after_responses, supervisor) if is_preloading else None,
    )


def _worker_agents(options: dict[str, Any]) -> AgentSources:
    """Return the agents that workers run. This server only reads the files of its agents folder.

    Raises:
        BadInput: a flag needs agents in this process.
    """
    from devui.workers.provider import WorkerRuntimes

    for flag in ("runtime", "demo"):
        if options[flag]:
            raise BadInput(
                f"--{flag} needs a server with runtimes of its own, and DEVUI_ENGINE leaves them to workers.",
                hint=f"Leave --{flag} out, or unset DEVUI_ENGINE.",
            )
    named = options["agents_dir"] or environment.read_text("DEVUI_AGENTS_DIR")
    folder = open_folder(named) if named else None
    return AgentSources(WorkerRuntimes(), folder, "the agents of its workers")


def _read_folder_option(options: dict[str, Any]) -> str | None:
    """Return the agents folder; None if only remote servers are given."""
    if options["runtime"] and not options["agents_dir"] and not environment.read_text("DEVUI_AGENTS_DIR"):
        return None
    return options["agents_dir"] or settings.DEVUI_AGENTS_DIR


async def _prepare_sessions(
    supervisor: RuntimeProvider, fill_store: Callable[[], Coroutine[Any, Any, None]] | None
) -> None:
    """Create the demo, if any. With external session storage, first start the processes, which copy its sessions."""
    if storage_location.find_session_owner():
        for name in supervisor.apps():
            try:
                await (await supervisor.client(name)).call("GET", "/devui/health")
            except DevUIError as error:
                log.warning("The sessions of %r are not shown yet: %s", name, error.message)
    if fill_store:
        await fill_store()
