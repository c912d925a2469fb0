"""Web processes that share a store, as `manage.py web` starts them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import forked_processes
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def serving(folder: Path, **environment: str) -> Iterator[str]:
    """Serve no agents, with the store in `folder` unless `environment` names one; yield the address."""
    agents = folder / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    known = {name: value for name, value in os.environ.items() if not name.startswith("DEVUI_")}
    own = {"DATABASE_URL": f"sqlite:///{folder}/devui.sqlite3", "DEVUI_DATA_DIR": str(folder)}
    process = forked_processes.Popen(
        [sys.executable, str(ROOT / "manage.py"), "web", str(agents), "--port", "0"],
        env={**known, **own, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        output = ""
        while not (match := re.search(r"on http://(\S+?)/ ", output)):
            line = process.stdout.readline()
            assert line, output
            output += line
        yield match.group(1)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
