"""The `devui` command: Django's management commands with DevUI's settings."""

from __future__ import annotations

import gc
import os
import signal
import sys

AUDITED = {"purge_sessions": ("purge", "session"), "login": ("settings", "login")}
"""Action and kind of object of the commands that the audit log lists, beside those of users."""

INTERRUPTED = 130
"""Exit status of programs ended by Ctrl-C, as in shells."""


def main() -> None:
    """Run a management command from `sys.argv`. Invalid settings end it with one line and status 2.

    Ctrl-C ends it without a traceback, also during imports.
    """
    try:
        _run_command()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C does not wait for the cleanup
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()  # the end of the process frees what is left without a search for garbage


def _run_command() -> None:
    needs_users = sys.argv[1:2] not in (["run_evals"], ["optimize"])
    os.environ.setdefault(
        "DJANGO_SETTINGS_MODULE", "devui.settings" if needs_users else "devui.agent_settings"
    )
    if sys.argv[1:2] in (["run_evals"], ["optimize"], ["web"], ["worker"]):
        gc.disable()  # until imports are done, see `gc_tuning.end_startup`
    if sys.argv[1:2] == ["team"]:
        from devui.serving import team_store

        team_store.set_environment()
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    if sys.argv[1:2] in (["web"], ["worker"]):
        from devui.serving import flags

        flags.export_to_environment(sys.argv[2:])
    try:
        settings.INSTALLED_APPS  # noqa: B018 - reads the settings
    except ImproperlyConfigured as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    execute_from_command_line(sys.argv)
    _record_command(sys.argv[1:])


def _record_command(arguments: list[str]) -> None:
    """Write the audit entry of a command that has ended well, if users are switched on."""
    from django.conf import settings

    action = AUDITED.get(arguments[0]) if arguments else None
    if action and settings.DEVUI_USERS:
        from devui.accounts import audit

        audit.record_command(*action, " ".join(arguments[1:]))


if __name__ == "__main__":
    main()
