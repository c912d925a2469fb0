"""Eval runs of the demo: recorded with the example agents, and copied from a packed store beside the demo file."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from contextlib import closing
from pathlib import Path

from django.db import transaction

from devui.serving.demo_times import DAY_S, move_eval_run
from evals_app.runs.writes.copied_runs import copy_run, read_runs
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.transfer.realm_copy import StoreFile

SUFFIX = ".sqlite3.gz"
"""Suffix of the packed store of `demo.json`, which is `demo.sqlite3.gz`."""

DAYS_AGO = 1
"""Age of the runs in days."""


async def copy_demo_runs(demo_file: Path) -> None:
    """Copy the eval runs of the store beside a demo file, if there is one.

    Raises:
        BadInput: the store is damaged, or of a newer DevUI.
        StoreFault: the rows cannot be written.
    """
    packed = demo_file.with_suffix(SUFFIX)
    if not await asyncio.to_thread(packed.is_file):
        return
    with tempfile.TemporaryDirectory(prefix="devui-demo-") as folder:
        store = Path(folder) / "runs.sqlite3"
        await asyncio.to_thread(_unpack_store, packed, store)
        try:
            await units_of_work.run_batched(_copy_runs, store)
        except BadInput:  # recorded by an earlier DevUI
            await asyncio.to_thread(_migrate_store, packed, store)
            await units_of_work.run_batched(_copy_runs, store)


def _unpack_store(packed: Path, store: Path) -> None:
    try:
        with gzip.open(packed) as source, store.open("wb") as target:
            shutil.copyfileobj(source, target)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(
            f"The demo runs {str(packed)!r} cannot be unpacked: {error}.", hint=f"Restore {packed.name}."
        ) from error


def _migrate_store(packed: Path, store: Path) -> None:
    """Migrate a store in a child process, whose `DATABASE_URL` names it."""
    own_store = {"DATABASE_URL": f"sqlite:///{store}", "DJANGO_SETTINGS_MODULE": "devui.agent_settings"}
    process = subprocess.run(
        [sys.executable, "-m", "devui", "migrate", "--skip-checks", "--verbosity", "0"],
        env={**os.environ, **own_store},
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if process.returncode:
        reason = process.stderr.strip().rpartition("\n")[2]
        raise BadInput(
            f"The demo runs {str(packed)!r} cannot be brought up to date: {reason}",
            hint="Record them again: python examples/record_demo_runs.py",
        )


def _copy_runs(store: Path) -> None:
    """Copy the runs and move them so that the first is one day old; the gaps between them stay."""
    with closing(StoreFile(store)) as source, transaction.atomic():
        stored_runs = read_runs(source)
        if not stored_runs:
            return
        age_days = int((time.time() - stored_runs[0].run.created_at) // DAY_S)
        for stored in stored_runs:
            move_eval_run(copy_run(stored), DAYS_AGO - age_days)
