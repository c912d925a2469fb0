"""Selection of the store: in memory or persistent."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import forked_processes

ROOT = Path(__file__).resolve().parent.parent

IN_MEMORY = """
import os, subprocess, sys
import devui
devui.setup(sys.argv[1])
devui.setup(sys.argv[1])
from django.db import connection
from sessions_app.sessions import storage_location as keeping
from sessions_app.store.sessions import writes
from sessions_app.store.session_key import SessionKey
writes.create_session(SessionKey("", "app", "user", "s1"))
place = keeping.store_location()
assert (place.kind, place.survives_restart) == ("a temporary file", False), place
child = '''
import devui
devui.setup()
from sessions_app.sessions import storage_location as keeping
from sessions_app.store.models import AgentSession
assert AgentSession.objects.count() == 1
assert not keeping.store_location().survives_restart
'''
subprocess.run([sys.executable, "-c", child], check=True)
if (pid := os.fork()) == 0:
    sys.exit(0)
os.waitpid(pid, 0)
assert os.path.exists(connection.settings_dict["NAME"])
print(connection.settings_dict["NAME"])
"""


SPELLED = [pytest.param(url, marks=pytest.mark.soak) for url in ("sqlite:///:memory:", "memory://")]


@pytest.mark.parametrize("url", ["sqlite://", *SPELLED])
def test_in_memory_store_is_shared_with_child_processes(url: str, tmp_path: Path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEVUI_")}
    done = forked_processes.run(
        [sys.executable, "-c", IN_MEMORY, url],
        cwd=tmp_path,
        env={**environment, "DATABASE_URL": "", "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    file = Path(done.stdout.strip())
    assert file.is_relative_to(tmp_path)
    assert not file.parent.exists()
    assert list(tmp_path.iterdir()) == []
