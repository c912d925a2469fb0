"""`manage.py runtime APP`: the process that runs one app's agents; `manage.py web` starts it."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devui.runtime.config import RuntimeConfig
from sessions_app.agent_processes.process_limits import apply_limits
from sessions_app.store.errors import DevUIError


class Command(BaseCommand):
    """Load the agents of one app and serve ADK's REST API for them, to callers with the token."""

    help = "Run one app's agents: used by `manage.py web`, whose child process this is."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the app and the inherited descriptors."""
        parser.add_argument("app", help="Name of the app, to tell processes apart.")
        parser.add_argument("--fd", type=int, required=True, help="A listening socket to inherit.")
        parser.add_argument(
            "--lifeline", type=int, required=True, help="A pipe to inherit: config, then life."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until the parent ends or a signal."""
        from devui.runtime.heartbeat import read_line

        listener_fd, lifeline_fd = options["fd"], options["lifeline"]
        for fd in (listener_fd, lifeline_fd):
            os.set_inheritable(fd, False)  # child processes of the agent must not inherit them
        config = RuntimeConfig.from_line(read_line(lifeline_fd))
        logging.getLogger().setLevel(config.options.log_level.upper())
        from devui.runtime.main import serve

        try:
            apply_limits()
            serve(config, socket.socket(fileno=listener_fd), lifeline_fd)
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}", returncode=2) from error
