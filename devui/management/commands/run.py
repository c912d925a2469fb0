"""`manage.py run AGENT MESSAGE`: one message to an agent, and its answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.forms.sessions import DEFAULT_USER
from sessions_app.management.arguments import parse_location
from sessions_app.presentation.visible_text import escape_text
from sessions_app.store.errors import DevUIError
from sessions_app.store.models import Run


class Command(BaseCommand):
    """Run an agent once. The session is stored like any other."""

    help = (
        "Send a message to an agent and print its answer. Exits 0 if the run ended well, 1 if it failed, 2 if it could"
        " not start."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the agent, the message and the session."""
        parser.add_argument("agent_dir", type=parse_location, metavar="AGENT", help="Folder of the agent.")
        parser.add_argument("message", metavar="MESSAGE", help="Text of the message.")
        parser.add_argument("--user", default=DEFAULT_USER, help="User of the session.")
        parser.add_argument(
            "--session", default="", metavar="ID", help="Id of the session to continue, or of the new one."
        )
        parser.add_argument(
            "--jsonl",
            action="store_true",
            help="Print the events of the run instead, as ADK's JSON, one a line, when they are stored.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the agent, and print what it answers.

        Raises:
            CommandError: the run failed, or could not start.
        """
        from devui.serving.command_run import Message, run_message
        from devui.serving.server import prepare_store
        from sessions_app.store.database import units_of_work
        from sessions_app.store.database.store_guard import guard_store

        settings.DEVUI_AGENTS_DIR = options["agent_dir"]
        message = Message(options["agent_dir"], options["message"], options["user"], options["session"])
        try:
            prepare_store()
            guard_store()
            run = asyncio.run(
                run_message(message, self._print_event if options["jsonl"] else self._print_answer)
            )
        except DevUIError as error:
            raise CommandError(f"{error.message} {error.hint}".strip(), returncode=2) from error
        finally:
            units_of_work.close_pools()
        self._report_end(run)

    def _print_event(self, event: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(event))
        self.stdout.flush()

    def _print_answer(self, event: dict[str, Any]) -> None:
        """Print the text of an answer. Texts beside calls of tools, and thoughts, are no answers."""
        parts = (event.get("content") or {}).get("parts") or []
        has_calls = any("functionCall" in part for part in parts)
        if event.get("author") == "user" or has_calls:
            return
        if text := "".join(part.get("text", "") for part in parts if not part.get("thought")):
            self.stdout.write(escape_text(text))

    def _report_end(self, run: Run) -> None:
        """Say how the run ended, on stderr.

        Raises:
            CommandError: it failed.
        """
        session = f"session {run.session.session_id}"
        if run.status == Run.Status.WAITING:
            self.stderr.write(f"The agent waits for an answer: give it on the page of {session}.")
        elif run.status != Run.Status.DONE:
            reason = f"{run.error_type}: {run.error}" if run.error else run.status
            raise CommandError(escape_text(f"The run of {session} ended: {reason}"), returncode=1)
