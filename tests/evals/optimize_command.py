"""The command `optimize`, called in this process."""

from __future__ import annotations

import io

from django.core.management import call_command


def optimize(*arguments):
    """Call the command; return its exit code and output."""
    code, out = 0, io.StringIO()
    try:
        call_command("optimize", *map(str, arguments), stdout=out)
    except SystemExit as ended:
        code = ended.code
    return code, out.getvalue()
