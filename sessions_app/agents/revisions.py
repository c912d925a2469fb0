"""The git revision of a folder, and the difference between two of its commits."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import threading
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


_COMMIT = re.compile(r"[0-9a-f]{40,64}")

SHOWN_FILES = (*EXCLUDE_BYTECODE, ":(exclude,glob)**/.env*", ":(exclude,glob)**/*.evalset.*")
"""Pathspecs for a difference of code: no keys, and no cases, which have versions of their own."""

MAX_DIFF_BYTES = 200_000
"""Length up to which a difference is read."""

_SAFE_SETTINGS = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.quotePath=false",
)
_SAFE_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-color")
_SAFE_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_OPTIONAL_LOCKS": "0"}
"""A repository may name programs in its settings: git must run none of them, and fetch nothing.

Older versions of git do not know `GIT_NO_LAZY_FETCH`; then the protocol of the fetch is refused.
"""


def diff_commits(folder: Path, before: str, after: str) -> str:
    """Return the difference of a folder between two revisions (`git_revision`), without uncommitted changes.

    Empty if the commits are equal there, or one of them is not in the folder's repository.
    """
    commits = [revision.partition("+")[0] for revision in (before, after)]
    if not all(_COMMIT.fullmatch(commit) for commit in commits):
        return ""
    command = ["git", "-C", str(folder), *_SAFE_SETTINGS, "diff-tree", "-p", *_SAFE_OPTIONS, *commits, "--"]
    environment = {**os.environ, **_SAFE_ENVIRONMENT}
    try:
        git = subprocess.Popen(
            [*command, *SHOWN_FILES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
    except OSError:
        return ""
    with git:
        timer = threading.Timer(GIT_TIMEOUT_S, git.kill)
        timer.start()
        try:
            output = git.stdout.read(MAX_DIFF_BYTES) if git.stdout else b""
        finally:
            timer.cancel()
            git.kill()
    return output.decode(errors="replace")


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
