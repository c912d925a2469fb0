"""Passwords of commands: typed twice on a terminal, or the first line of standard input."""

from __future__ import annotations

import getpass
import sys

from django.core.management.base import CommandError


def read_password(least: int) -> str:
    """Return the password that was entered; empty if one is to be generated. `least`: least characters.

    Raises:
        CommandError: the two passwords differ.
    """
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass(f"Password ({least} characters or more; empty to generate one): ")
    if password and getpass.getpass("Once more: ") != password:
        raise CommandError("The two passwords differ; nothing was changed.", returncode=2)
    return password
