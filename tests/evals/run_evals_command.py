"""The command `run_evals`: called in this process, or its argv and environment for another one."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.store import store_url

EXAMPLE_AGENTS = Path(__file__).resolve().parents[2] / "examples" / "agents"


def run_evals(*arguments, out=None):
    """Call the command; return its exit code and output."""
    out = out or io.StringIO()
    code = 0
    try:
        call_command("run_evals", *map(str, arguments), stdout=out)
    except SystemExit as ended:
        code = ended.code
    return code, out.getvalue() if isinstance(out, io.StringIO) else ""


def usage_error(*arguments):
    """Return the message with which the command refuses these arguments."""
    with pytest.raises(CommandError) as error:
        run_evals(*arguments)
    assert error.value.returncode == 2
    return str(error.value)


def run_evals_argv(*arguments):
    return [sys.executable, "manage.py", "run_evals", *map(str, arguments)]


def environment():
    return {**os.environ, "DATABASE_URL": store_url()}
