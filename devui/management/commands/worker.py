"""`manage.py worker AGENTS_DIR`: runs agents for web processes on any host."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from devui.config import environment, hosts
from devui.serving import flags
from sessions_app.agents.folder import open_folder_with_agents
from sessions_app.store.errors import BadInput, DevUIError

CONCURRENCY = 8

SWEEP_S = 5.0
"""Seconds between two checks for runs whose worker is gone. With many hosts, others wait for them."""

CANCEL_S = 1.5
"""Seconds for an agent to react to a cancellation; then its process is ended. Web processes see the end within 2 s."""


class Command(BaseCommand):
    """Supervise an agents folder's runtimes, and take runs from the queue."""

    help = "Run the agents of a folder for web processes with DEVUI_ENGINE. The flags of agents are those of `adk web`."
    requires_system_checks = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Give `-v` the meaning that it has in `adk web`."""
        return super().create_parser(prog_name, subcommand, conflict_handler="resolve", **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the folder, what the worker takes, its address, and the flags of `adk web`."""
        parser.add_argument(
            "agents_dir", help="Folder whose subfolders are agents, or the folder of one agent."
        )
        parser.add_argument(
            "--concurrency",
            type=int,
            default=CONCURRENCY,
            help=f"Conversation runs and attempts of eval runs at once. Default: {CONCURRENCY}.",
        )
        parser.add_argument(
            "--queues",
            default="conversations,evals",
            help="Kinds of runs to take, comma-separated. Default: conversations,evals.",
        )
        parser.add_argument(
            "--listen",
            metavar="HOST:PORT",
            default="127.0.0.1:0",
            help="Address to serve web processes on. Port 0 selects a free one. Default: 127.0.0.1:0.",
        )
        parser.add_argument(
            "--advertise",
            metavar="HOST:PORT",
            help="Address at which web processes reach this worker, if it differs: behind NAT, or in a container."
            " Default: that of --listen, and for 0.0.0.0 the name of this host.",
        )
        flags.add_flags(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until a signal. Errors are shown in one line, with exit status 2."""
        try:
            self._run_worker(options)
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}".strip(), returncode=2) from error
        except ImproperlyConfigured as error:
            raise CommandError(str(error), returncode=2) from error

    def _run_worker(self, options: dict[str, Any]) -> None:
        if not settings.DEVUI_ENGINE:
            raise BadInput(
                "A worker needs DEVUI_ENGINE=procrastinate, and so do the web processes that it works for.",
                hint="To run agents in the web process's own runtimes: python manage.py web AGENTS_DIR.",
            )
        from devui.serving.server import open_listener, prepare_store
        from devui.supervisor import SupervisorLimits
        from devui.supervisor.agent_user import AgentUser
        from devui.workers import server
        from devui.workers.supervisor import WorkerSupervisor

        folder = open_folder_with_agents(options["agents_dir"])
        limits = replace(SupervisorLimits.from_environment(), sweep=SWEEP_S, cancel=CANCEL_S)
        supervisor = WorkerSupervisor(
            folder.path,
            replace(flags.runtime_options(options), continue_evals=True),
            limits=limits,
            environment=environment.runtime_environment(),
            agent_user=AgentUser.from_settings(),
            output_folder=settings.DATA_DIR / "output",
        )
        host, port = _parse_address("listen", options["listen"])
        advertised = _advertised_address(options["advertise"])
        listener = open_listener(host, port, has_login=True, flags="--listen")  # its callers need a token
        address = advertised or f"{_reachable_name(host)}:{listener.getsockname()[1]}"
        worker_options = server.WorkerOptions(
            address, _parse_kinds(options["queues"]), _parse_concurrency(options["concurrency"]), limits.drain
        )
        prepare_store()
        for line in flags.unused_flag_notes(options):
            self.stderr.write(line)
        names = ", ".join(folder.names())
        self.stdout.write(f"Worker with {names} at {address} (Ctrl-C ends it when its runs have ended)")
        self.stdout.flush()
        server.serve(supervisor, folder, listener, worker_options)


def _parse_address(option: str, value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal():
        raise BadInput(f"--{option} {value!r} is not HOST:PORT.", hint=f"Example: --{option} 10.0.0.5:8100.")
    return host.strip("[]"), int(port)


def _advertised_address(value: str | None) -> str:
    """Return the address that web processes use; empty: that of the listener."""
    from devui.serving.server import MAX_PORT

    if not value:
        return ""
    host, port = _parse_address("advertise", value)
    if host in hosts.EVERY_ADDRESS or not 0 < port <= MAX_PORT:
        raise BadInput(
            f"--advertise {value!r} is no address that web processes can use.",
            hint="Name a host and the port that leads to this worker: --advertise worker-1.example.com:8100.",
        )
    return f"{hosts.in_brackets(host)}:{port}"


def _reachable_name(host: str) -> str:
    return socket.gethostname() if host in hosts.EVERY_ADDRESS else hosts.in_brackets(host)


def _parse_concurrency(value: int) -> int:
    if value < 1:
        raise BadInput(f"--concurrency {value} is not a positive number.", hint="Example: --concurrency 8.")
    return value


def _parse_kinds(value: str) -> tuple[str, ...]:
    from devui.workers.queues import KINDS

    kinds = tuple(name.strip() for name in value.split(",") if name.strip())
    if unknown := [name for name in kinds if name not in KINDS]:
        raise BadInput(f"--queues: there is no queue {unknown[0]!r}.", hint=f"Use {' or '.join(KINDS)}.")
    return kinds or KINDS
