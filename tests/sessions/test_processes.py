"""Several processes, each with several tasks, append to the same session and to their own."""

from __future__ import annotations

import sys
from pathlib import Path

from sessions_app.store.models import AgentSession, Event, SessionState
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests import forked_processes
from tests.sessions.faults.store_integrity import assert_intact
from tests.store import store_url

ROOT = Path(__file__).resolve().parents[2]
PROCESSES, TASKS, TURNS = 3, 2, 5


def test_no_update_is_lost_and_a_stale_copy_is_the_only_refusal(store):
    writes.create_session(SessionKey("", "weather", "ann", "shared"), {"n": 0})
    sizes = [str(number) for number in (PROCESSES, TASKS, TURNS)]
    command = [sys.executable, "-m", "tests.sessions.concurrent_appends", store_url(), *sizes]
    done = forked_processes.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    appends = PROCESSES * TASKS * TURNS
    shared = AgentSession.objects.get(session_id="shared")
    assert SessionState.objects.get(owner=shared, key="n").value == str(appends)
    assert Event.objects.filter(session=shared).count() == appends
    assert Event.objects.count() == 2 * appends
    assert_intact()
