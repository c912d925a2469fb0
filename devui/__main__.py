"""The `devui` command: Django's management commands with DevUI's settings."""

from __future__ import annotations

import gc
import os
import signal
import sys

INTERRUPTED = 130
"""How programs exit that Ctrl-C ended, as shells tell it."""


def main() -> None:
    """Run a management command from `sys.argv`. Settings that cannot be used end it with one line and status 2.

    Ctrl-C ends it without a word, also while it imports what it needs.
    """
    try:
        _run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # one more does not wait for what has to be put away
        sys.exit(INTERRUPTED)


def _run() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "devui.settings")
    if sys.argv[1:2] in (["run_evals"], ["web"]):
        gc.disable()  # until all is imported, see `evals_app.engine.local_runner` and `devui.serving.server`
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    if sys.argv[1:2] == ["web"]:
        from devui.serving import flags

        flags.export_to_environment(sys.argv[2:])
    try:
        settings.INSTALLED_APPS  # noqa: B018 - reads the settings
    except ImproperlyConfigured as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
