"""`manage.py team AGENTS_DIR`: a team's web processes and workers on this machine, to try it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.agents.folder import open_folder_with_agents
from sessions_app.store.errors import BadInput, DevUIError

ADMIN = "admin"
"""Name of the first user."""


class Command(BaseCommand):
    """Start the processes of a team, and end them with Ctrl-C."""

    help = (
        "Start two web processes and three workers on this machine, with users. The store is the PostgreSQL database of"
        " DATABASE_URL (default: postgresql://postgres@127.0.0.1:5432/devui_team), created if it is missing."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the folder, the port and the numbers of processes."""
        parser.add_argument("agents_dir", help="Folder whose subfolders are agents.")
        parser.add_argument(
            "--port",
            type=int,
            default=8000,
            help="Port of the first web process; the next have the next ones.",
        )
        parser.add_argument("--webs", type=int, default=2, help="Number of web processes. Default: 2.")
        parser.add_argument("--workers", type=int, default=3, help="Number of workers. Default: 3.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the team until Ctrl-C. Errors are shown in one line, with exit status 2."""
        from devui.serving import team_processes

        try:
            _check_options(options)
            sign_in = self._prepare_store()
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}".strip(), returncode=2) from error
        processes = team_processes.TeamProcesses(_process_commands(options), self._write_line)
        try:
            is_ready = processes.wait_until_ready()
            ended = processes.describe_ended()
            if is_ready:
                addresses = " and ".join(f"http://127.0.0.1:{port}/" for port in _list_ports(options))
                self._write_line(f"\nThe team serves on {addresses}\n{sign_in}\nCtrl-C ends all.\n")
                processes.wait()
        finally:
            processes.end()
        if ended and not is_ready:
            raise CommandError(f"The team does not start: {ended}. See above.", returncode=2)

    def _prepare_store(self) -> str:
        """Create database, tables and the first admin. Return how to sign in."""
        from devui.accounts import users
        from devui.serving.server import prepare_store
        from devui.serving.team_store import ensure_database
        from sessions_app.roles import Role

        url = _database_url()
        if ensure_database(url):
            self._write_line(f"Created the database {settings.DATABASES['default']['NAME']!r}.")
        prepare_store()
        if users.has_admin():
            return "Sign in with your name and password. New password: devui changeuser NAME --password"
        password = users.create_user(ADMIN, Role.ADMIN)
        self._write_line(f"Created the user {ADMIN} with the password {password}")
        return f"Sign in as {ADMIN} with the password {password} (shown only now)."

    def _write_line(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _check_options(options: dict[str, Any]) -> None:
    """Refuse what would let processes fail after others have started.

    Raises:
        BadInput: the folder has no agents, a number is not positive, or a port is not available.
    """
    from devui.serving.server import open_listener

    open_folder_with_agents(options["agents_dir"])
    for name in ("webs", "workers"):
        if options[name] < 1:
            raise BadInput(
                f"--{name} {options[name]} is not a positive number.", hint=f"Example: --{name} 2."
            )
    for port in _list_ports(options):
        open_listener("127.0.0.1", port, flags="--port").close()


def _database_url() -> str:
    from devui.config import environment

    return environment.read_text("DATABASE_URL")


def _list_ports(options: dict[str, Any]) -> list[int]:
    return [options["port"] + number for number in range(options["webs"])]


def _process_commands(options: dict[str, Any]) -> list[Any]:
    from devui.serving.team_processes import ProcessCommand

    folder = options["agents_dir"]
    webs = [
        ProcessCommand(f"web {port}", ("web", folder, "--port", str(port))) for port in _list_ports(options)
    ]
    workers = [ProcessCommand(f"worker {n + 1}", ("worker", folder)) for n in range(options["workers"])]
    return [*webs, *workers]
