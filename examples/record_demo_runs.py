"""Records the eval runs of the demo: evalset `delivery` of `shop`, before and after the bug of the agent is corrected.

    python examples/record_demo_runs.py

Both runs execute a copy of the agents. The store that they leave is packed into `demo.sqlite3.gz`, beside `demo.json`.
"""

import gzip
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import django

EXAMPLES = Path(__file__).parent
REPETITIONS = "5"  # fewer cannot tell a corrected case from chance

BUG = '    callback_context.state["tier"] = "standard"  # the bug: in every turn, not only in a new session\n'
CORRECTION = """\
    if "tier" not in callback_context.state:
        callback_context.state["tier"] = "standard"
"""
NOTE = "Corrected: set_defaults writes the tier only if the session has none."


def run_delivery(agents: Path) -> None:
    """Run the evalset. The command exits with 1 if a case fails, as it does before the correction."""
    command = [sys.executable, EXAMPLES.parent / "manage.py", "run_evals", agents / "shop", "delivery"]
    status = subprocess.run([*command, "--num-runs", REPETITIONS], check=False).returncode
    if status > 1:
        sys.exit(status)


def correct_bug(agents: Path) -> None:
    """Let the callback leave the tier of a customer alone."""
    agent = agents / "shop" / "agent.py"
    code = agent.read_text(encoding="utf-8")
    if BUG not in code:
        sys.exit(f"The line of the bug is not in {agent}: adapt BUG and CORRECTION.")
    agent.write_text(code.replace(BUG, CORRECTION), encoding="utf-8")


def note_correction() -> None:
    """Write the note of the second run."""
    django.setup()
    from evals_app.models import EvalRun
    from evals_app.runs.writes.notes import note_run

    note_run(EvalRun.objects.latest("created_at").pk, NOTE)
    django.db.connection.close()


def pack(store: Path, target: Path) -> None:
    """Write the store without its log of uncommitted pages and without free pages, compressed."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode = DELETE")
    target.write_bytes(gzip.compress(store.read_bytes(), mtime=0))


def main() -> None:
    """Record both runs."""
    with tempfile.TemporaryDirectory() as folder:
        agents, store = Path(folder) / "agents", Path(folder) / "runs.sqlite3"
        os.environ |= {
            "DATABASE_URL": f"sqlite:///{store}",
            "DEVUI_DATA_DIR": folder,
            "DJANGO_SETTINGS_MODULE": "devui.agent_settings",
        }
        shutil.copytree(EXAMPLES / "agents", agents, ignore=shutil.ignore_patterns("__pycache__"))
        run_delivery(agents)
        correct_bug(agents)
        run_delivery(agents)
        note_correction()
        pack(store, EXAMPLES / "demo.sqlite3.gz")


if __name__ == "__main__":
    main()
