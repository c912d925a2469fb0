"""`manage.py mcp`: DevUI's tools for a coding agent, over stdin and stdout; `mcp install`: the entry for its client."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from devui.config import environment
from devui.mcp import client_entries
from devui.mcp.client_entries import CLIENTS
from devui.mcp.errors import require_sdk
from sessions_app.agents.folder import open_folder
from sessions_app.store.errors import DevUIError
from sessions_app.store.redaction import without_password

TOKEN = "DEVUI_TOKEN"  # noqa: S105 - the name of a variable
URL = "http://127.0.0.1:8000/"


class Command(BaseCommand):
    """Serve MCP to the program that started this process, or print the entry with which clients start it."""

    help = "Give a coding agent tools to read sessions and evals (Model Context Protocol, over stdin and stdout)."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options, and those of `install`."""
        _add_common_arguments(parser)
        parser.add_argument("--url", default=URL, help="Address of the DevUI whose pages answers link to.")
        actions = parser.add_subparsers(dest="action", metavar="install")
        install = actions.add_parser("install", help="Print the entry for the file of a client, or write it.")
        install.add_argument("client", choices=[*CLIENTS], help="The program that uses the tools.")
        _add_common_arguments(install)
        install.add_argument(
            "--http",
            metavar="URL",
            help=f"Use a running DevUI instead, such as {URL}. It needs DEVUI_MCP_WRITE=1 for tools that write.",
        )
        install.add_argument(
            "--token",
            action="store_true",
            help=f"Send the token in the client's environment variable {TOKEN}, with --http.",
        )
        install.add_argument(
            "--save", action="store_true", help="Write the entry to the client's file in the working folder."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until stdin ends, or print or write an entry. Errors are one line, with exit status 2."""
        try:
            if options["action"] == "install":
                self._install_entry(options)
            else:
                _serve_stdio(options)
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}".strip(), returncode=2) from error

    def _install_entry(self, options: dict[str, Any]) -> None:
        client = CLIENTS[options["client"]]
        if options["http"]:
            url = options["http"].rstrip("/").removesuffix("/mcp") + "/mcp"
            entry = client_entries.http_entry(client, url, TOKEN if options["token"] else "")
        else:
            entry = _stdio_entry(options)
        if options["save"]:
            file = client_entries.save_entry(client, entry, Path.cwd())
            self.stderr.write(
                f"{client.label} finds DevUI in {file}. Restart it there, or reload its servers."
            )
            return
        self.stderr.write(f"Add this to {client.file} in the folder of your project ({client.label}):")
        self.stdout.write(client_entries.file_text(client, entry), ending="")


def _add_common_arguments(parser: Any) -> None:
    parser.add_argument(
        "--agents",
        metavar="DIR",
        default=None,
        help="Folder of the agents, for drafts of cases and with --write. Default: DEVUI_AGENTS_DIR, else the working"
        " folder.",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="Also offer tools that send messages to agents, run evals and add cases to evalsets.",
    )


def _serve_stdio(options: dict[str, Any]) -> None:
    """Serve MCP until stdin ends.

    Raises:
        SdkMissing: the SDK is not installed.
        BadInput: there is no such folder of agents.
        Forbidden: the store has a login, and no token of it is set.
    """
    require_sdk()
    from devui.serving.server import prepare_store
    from sessions_app.store.database import units_of_work
    from sessions_app.store.database.store_guard import guard_store

    settings.DEVUI_AGENTS_DIR = options["agents"] or settings.DEVUI_AGENTS_DIR
    prepare_store()
    guard_store()
    asyncio.run(_serve_with_agents(options))
    units_of_work.close_pools()


async def _serve_with_agents(options: dict[str, Any]) -> None:
    from devui.mcp.stdio_transport import serve_stdio
    from devui.serving.local_agents import run_agents

    async with run_agents(settings.DEVUI_AGENTS_DIR):
        await serve_stdio(
            can_write=options["write"], base_url=options["url"], token=environment.read_secret(TOKEN)
        )


def _stdio_entry(options: dict[str, Any]) -> client_entries.Entry:
    """Return the entry that starts this Python with this store and folder of agents.

    Raises:
        BadInput: there is no such folder of agents.
    """
    folder = open_folder(options["agents"] or settings.DEVUI_AGENTS_DIR)
    arguments = ["-m", "devui", "mcp", "--agents", str(folder.path)]
    return client_entries.stdio_entry(
        sys.executable, [*arguments, *(["--write"] if options["write"] else [])], _store_variables()
    )


def _store_variables() -> dict[str, str]:
    """Return the variables that name this store; without the URL of a store if it has a password."""
    variables = {"DEVUI_DATA_DIR": str(settings.DATA_DIR)}
    url = os.environ.get("DATABASE_URL", "")
    return {**variables, "DATABASE_URL": url} if url and without_password(url) == url else variables
