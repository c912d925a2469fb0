"""`manage.py runtime APP`: the process that runs one app's agents; `manage.py web` starts it."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import uuid
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from devui.runtime.config import TOKEN_HEADER, RuntimeConfig
from sessions_app.agents.folder import open_folder
from sessions_app.errors import DevUIError
from sessions_app.runs import processes


class Command(BaseCommand):
    """Load the agents of one app and serve ADK's REST API for them, to callers with the token."""

    help = "Run one app's agents in this process, as `manage.py web` does in a child process."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the app, and either its address or the inherited descriptors."""
        parser.add_argument("app", help="Name of the app in the agents folder.")
        parser.add_argument("--agents-dir", "--agents_dir", default=None, help="The agents folder.")
        parser.add_argument("--host", default="127.0.0.1", help="Loopback address to serve on.")
        parser.add_argument("--port", type=int, default=0, help="Port to serve on; 0 selects a free one.")
        parser.add_argument("--fd", type=int, help="A listening socket to inherit (used by `web`).")
        parser.add_argument(
            "--lifeline", type=int, help="A pipe to inherit: config, then life (used by `web`)."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until the parent ends or a signal."""
        if options["fd"] is not None and options["lifeline"] is not None:
            self._serve_parent(options["fd"], options["lifeline"])
        else:
            self._serve_by_hand(options["app"], options["agents_dir"], options["host"], options["port"])

    def _serve_parent(self, listener_fd: int, lifeline_fd: int) -> None:
        from devui.runtime.heartbeat import read_line

        for fd in (listener_fd, lifeline_fd):
            os.set_inheritable(fd, False)  # child processes of the agent must not inherit them
        config = RuntimeConfig.from_line(read_line(lifeline_fd))
        logging.getLogger().setLevel(config.options.log_level.upper())
        from devui.runtime.main import serve

        try:
            serve(config, socket.socket(fileno=listener_fd), lifeline_fd)
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}", returncode=2) from error

    def _serve_by_hand(self, app: str, agents_dir: str | None, host: str, port: int) -> None:
        from devui.serving.server import open_listener, prepare_store

        try:
            folder = open_folder(agents_dir or settings.DEVUI_AGENTS_DIR)
            version = folder.code_version(app)
            listener = open_listener(host, port)
            prepare_store()
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}", returncode=2) from error
        token = os.environ.pop("DEVUI_RUNTIME_TOKEN", "") or secrets.token_urlsafe(32)
        runtime_id = uuid.uuid4().hex
        processes.register(runtime_id, app, os.getpid(), version)
        self.stdout.write(
            f"{app} on http://{host}:{listener.getsockname()[1]}/ ({TOKEN_HEADER}: {token}). Ctrl-C ends it."
        )
        from devui.runtime.main import serve

        serve(RuntimeConfig(app, str(Path(folder.given)), runtime_id, version, token), listener)
