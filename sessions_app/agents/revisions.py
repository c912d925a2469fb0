"""The git revision of a folder."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path

GIT_TIMEOUT_S = 5.0
"""Timeout for git, which may have to read a large folder."""

EXCLUDE_BYTECODE = (".", ":(exclude,glob)**/__pycache__/**")
"""Pathspecs for `git status` that leave out compiled Python files."""


async def git_revision(folder: Path) -> str:
    """Return the commit of a folder's repository; empty if unknown.

    If tracked files of the repository have changes, or the folder has new files, `+` and a digest of the changes
    follow: an agent may import modules from outside of its folder.
    """
    commit, changes, status = await asyncio.gather(
        _run_git(folder, "rev-parse", "HEAD"),
        _run_git(folder, "diff", "--no-ext-diff", "--no-textconv", "HEAD"),
        _run_git(folder, "status", "--porcelain", "--", *EXCLUDE_BYTECODE),
    )
    if not commit:
        return ""
    is_clean = not changes and not status
    return commit if is_clean else f"{commit}+{sha256((changes + status).encode()).hexdigest()[:8]}"


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
