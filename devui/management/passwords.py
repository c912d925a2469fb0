"""Passwords of commands: typed twice on a terminal, or the first line of standard input."""

from __future__ import annotations

import getpass
import sys

from django.core.management.base import CommandError

MIN_PASSWORD = 10
"""Least characters of a password."""


def read_password() -> str:
    """Return the password that was entered; empty if one is to be generated.

    Raises:
        CommandError: the two passwords differ.
    """
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass(f"Password ({MIN_PASSWORD} characters or more; empty to generate one): ")
    if password and getpass.getpass("Once more: ") != password:
        raise CommandError("The two passwords differ; nothing was changed.", returncode=2)
    return password
