"""`manage.py new NAME`: the folder of a new agent, as `adk create` makes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devui.serving.new_agent import create_agent
from sessions_app.management.arguments import parse_path
from sessions_app.store.errors import DevUIError


class Command(BaseCommand):
    """Create the folder of an agent; refuse an existing one."""

    help = "Create the folder of a new agent, with a place for the key of its model."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the folder."""
        parser.add_argument("folder", type=parse_path, help="New folder; its name is the name of the agent.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create the folder, and say what to do next.

        Raises:
            CommandError: the folder exists, or cannot be created.
        """
        folder = Path(options["folder"])
        try:
            create_agent(folder)
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}", returncode=2) from error
        self.stdout.write(
            f"The agent is in {folder}. Enter the key of its model in {folder / '.env'}, then ask it:"
        )
        self.stdout.write(f'  devui run {folder} "Hello"')
        self.stdout.write(f"  devui web {folder.parent}")
