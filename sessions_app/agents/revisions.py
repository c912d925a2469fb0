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

MAX_DIFF_BYTES = 200_000
"""Length up to which a difference is read."""

EXCLUDE_BYTECODE = (".", ":(exclude,glob)**/__pycache__/**")
"""Pathspecs for `git status` that leave out compiled Python files."""

SHOWN_FILES = (*EXCLUDE_BYTECODE, ":(exclude,glob)**/.env*", ":(exclude,glob)**/*.evalset.*")
"""Pathspecs for a difference of code: no keys, and no cases, which have versions of their own."""

_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_SAFE_SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false")
_SAFE_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color")
_SAFE_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_OPTIONAL_LOCKS": "0"}
"""A repository may name programs in its settings: git must run none of them, and fetch nothing.

Older versions of git do not know `GIT_NO_LAZY_FETCH`; then the protocol of the fetch is refused.
"""


async def git_revision(folder: Path) -> str:
    """Return the commit of a folder's repository; empty if unknown.

    If tracked files of the repository have changes, or the folder has new files, `+` and a digest of the changes
    follow: an agent may import modules from outside of its folder.
    """
    commands = (
        ("rev-parse", "HEAD"),
        ("diff", *_SAFE_DIFF, "HEAD"),
        ("status", "--porcelain", "--", *EXCLUDE_BYTECODE),
    )
    outputs = await asyncio.gather(*(asyncio.to_thread(_run_git, folder, *command) for command in commands))
    commit, changes = outputs[0].decode().strip(), b"".join(output.strip() for output in outputs[1:])
    if not _COMMIT.fullmatch(commit):
        return ""
    return f"{commit}+{sha256(changes).hexdigest()[:8]}" if changes else commit


def diff_commits(folder: Path, before: str, after: str) -> str:
    """Return the difference of a folder between two revisions (`git_revision`), without uncommitted changes.

    Empty if the commits are equal there, or one of them is not in the folder's repository.
    """
    commits = [revision.partition("+")[0] for revision in (before, after)]
    if not all(_COMMIT.fullmatch(commit) for commit in commits):
        return ""
    arguments = ("diff-tree", "-p", *_SAFE_DIFF, *commits, "--", *SHOWN_FILES)
    return _run_git(folder, *arguments, max_bytes=MAX_DIFF_BYTES).decode(errors="replace")


def _run_git(folder: Path, *arguments: str, max_bytes: int = -1) -> bytes:
    """Return what git prints, up to a length; what it printed until then if it fails or takes too long."""
    settings = [option for setting in _SAFE_SETTINGS for option in ("-c", setting)]
    command = ["git", "-C", str(folder), *settings, *arguments]
    environment = {**os.environ, **_SAFE_ENVIRONMENT}
    try:
        git = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    except OSError:
        return b""
    with git:
        timer = threading.Timer(GIT_TIMEOUT_S, git.kill)
        timer.start()
        try:
            return git.stdout.read(max_bytes) if git.stdout else b""
        finally:
            timer.cancel()
            git.kill()
