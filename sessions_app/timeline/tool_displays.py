"""Calls and results of tools that are shown as more than JSON: edits of files, and what a command printed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.presentation.value_diff import DiffLine, diff_lines
from sessions_app.store import scopes

PATH_ARGUMENTS = ("path", "file_path", "filename")
"""Names of the argument with the edited file: ADK's `EditFile`, and tools of other makers."""

SHELL_FIELDS = ("stdout", "stderr")
"""Fields of a result with what a command printed, as ADK's `Execute` and most shells of agents return them."""

EXIT_FIELDS = ("exit_code", "returncode", "return_code")


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The replacement of a text in a file, line by line."""

    path: str
    lines: list[DiffLine]


@dataclass(frozen=True, slots=True)
class ShellOutput:
    """Output of a command. `exit_code` is None if the result has none."""

    stdout: str
    stderr: str
    exit_code: int | None


def read_file_edit(args: object) -> FileEdit | None:
    """Return the edit that the arguments of a call describe by `old_string` and `new_string`; None for other calls."""
    if not isinstance(args, Mapping):
        return None
    old, new = args.get("old_string"), args.get("new_string")
    if not (isinstance(old, str) and isinstance(new, str)):
        return None
    path = next((args[name] for name in PATH_ARGUMENTS if isinstance(args.get(name), str)), "")
    if old.endswith("\n") and new.endswith("\n"):
        old, new = old[:-1], new[:-1]  # no empty line at the end
    return FileEdit(path, diff_lines(scopes.dumps(old), scopes.dumps(new)))


def read_shell_output(response: object) -> ShellOutput | None:
    """Return what a result says of a command, by `stdout`, `stderr` and an exit code; None for other results."""
    result: Any = response.get("result", response) if isinstance(response, Mapping) else None
    if not isinstance(result, Mapping):
        return None
    stdout, stderr = (result.get(name) for name in SHELL_FIELDS)
    codes = [code for name in EXIT_FIELDS if isinstance(code := result.get(name), int) and code is not True]
    if not (isinstance(stdout, str) or isinstance(stderr, str)):
        return None
    return ShellOutput(
        stdout if isinstance(stdout, str) else "",
        stderr if isinstance(stderr, str) else "",
        codes[0] if codes else None,
    )
