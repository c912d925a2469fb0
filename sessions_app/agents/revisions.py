"""The git revision of a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

GIT_TIMEOUT_S = 5.0
"""Timeout for git, which may have to read a large folder."""

EXCLUDE_BYTECODE = (".", ":(exclude,glob)**/__pycache__/**")
"""Pathspecs for `git status` that leave out compiled Python files."""


async def git_revision(folder: Path) -> str:
    """Return a folder's commit, with `+` if its files have changes; empty if unknown."""
    commit = await _run_git(folder, "rev-parse", "HEAD")
    if not commit:
        return ""
    return commit + ("+" if await _run_git(folder, "status", "--porcelain", "--", *EXCLUDE_BYTECODE) else "")


async def _run_git(folder: Path, *arguments: str) -> str:
    try:
        git = await asyncio.create_subprocess_exec(
            "git",
            "-C",
            str(folder),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        output, _ = await asyncio.wait_for(git.communicate(), GIT_TIMEOUT_S)
    except TimeoutError:
        git.kill()
        return ""
    return output.decode(errors="replace").strip()
